use super::*;

#[test]
fn every_error_has_its_code_and_says_why() {
    let stage = |source| {
        AskError::Agent(AgentError::Stage {
            hop: 2,
            stage: Stage::Target,
            source,
        })
    };
    let what = || "model at h:1".to_owned();
    let too_long = || PortError::too_long(what(), "9 do not fit into 5");
    for (error, code, message) in [
        (
            stage(PortError::unavailable(what(), "connection refused")),
            Code::Unavailable,
            "hop 2 got nothing from its target stage: model at h:1 is unavailable: connection refused",
        ),
        (
            stage(PortError::timed_out(what(), Duration::from_millis(5))),
            Code::Unavailable,
            "hop 2 got nothing from its target stage: model at h:1 took longer than 5 ms",
        ),
        (
            stage(PortError::malformed(what(), "no tag")),
            Code::Internal,
            "hop 2 got nothing from its target stage: model at h:1 gave an unusable answer: no tag",
        ),
        (
            stage(PortError::refused(what(), "no such model")),
            Code::FailedPrecondition,
            "hop 2 got nothing from its target stage: model at h:1 refused the request: no such model",
        ),
        (
            stage(too_long()),
            Code::FailedPrecondition,
            "hop 2 got nothing from its target stage: model at h:1 cannot take so much: 9 do not fit into 5",
        ),
        // The very first prompt is the question.
        (
            AgentError::Stage {
                hop: 1,
                stage: Stage::Segment,
                source: too_long(),
            }
            .into(),
            Code::InvalidArgument,
            "question: is too long for model at h:1: 9 do not fit into 5",
        ),
        (
            AgentError::Deadline { committed: 1 }.into(),
            Code::DeadlineExceeded,
            "the deadline passed with 1 hops committed",
        ),
        (
            AskError::Busy {
                questions_max: 4,
                wait: InVain::NoLine,
            },
            Code::ResourceExhausted,
            "4 questions are being answered, which is the most; try again later",
        ),
        (
            AskError::Busy {
                questions_max: 4,
                wait: InVain::LineFull(9),
            },
            Code::ResourceExhausted,
            "4 questions are being answered, which is the most, and 9 wait for a place, which is the most, \
             too; try again later (an operator can raise server.queue_max or server.questions_max)",
        ),
        (
            AskError::Busy {
                questions_max: 4,
                wait: InVain::PushedOut(Duration::from_millis(20)),
            },
            Code::ResourceExhausted,
            "4 questions are being answered, which is the most, and after 0.020 s in line this one made room \
             for a tenant with fewer in line; try again later (an operator can raise server.queue_max or \
             server.questions_max)",
        ),
        (
            AskError::TenantBusy {
                tenant: Tenant::new("a").unwrap(),
                most: 2,
                wait: InVain::TooLong(Duration::from_millis(1500)),
            },
            Code::ResourceExhausted,
            "2 questions of tenant a are being answered, which is the most, and this one waited 1.500 s for a \
             place in vain; try again later (an operator can raise server.queue_ms or tenant.questions_max)",
        ),
        (
            AskError::TooManyReaders { most: 16 },
            Code::ResourceExhausted,
            "16 readers follow this question, which is the most; try again later",
        ),
        (
            AskError::Unread {
                limit: Duration::from_millis(1500),
            },
            Code::Aborted,
            "nothing of the stream was read for 1.5 s, so it was ended",
        ),
        (
            AskError::NotOpen(Tenant::new("q-1").unwrap()),
            Code::NotFound,
            "no question q-1 is open on this server: it has ended, or has not begun",
        ),
        (
            AskError::ShuttingDown,
            Code::Unavailable,
            "the server is shutting down",
        ),
        (
            AskError::Invalid(vec![
                FieldViolation::new("k", "wrong"),
                FieldViolation::new("question", "empty"),
            ]),
            Code::InvalidArgument,
            "k: wrong; question: empty",
        ),
    ] {
        let status = Status::from(error);
        assert_eq!(status.code(), code);
        assert_eq!(status.message(), message);
    }
}

#[test]
fn whoever_may_not_spend_hears_when_to_come_back() {
    let again_in = Duration::from_secs(9);
    let what = "tokens";
    for (shortage, words) in [
        (
            Shortage::UsedUp { what, again_in },
            "the budget of tenant a is used up (tokens); a new period begins in 10 s",
        ),
        (
            Shortage::SetAside { what, again_in },
            "the rest of the budget of tenant a (tokens) is set aside",
        ),
        (
            Shortage::Strangers { again_in },
            "too many tenants have spent something lately to take on tenant a",
        ),
    ] {
        let tenant = Tenant::new("a").unwrap();
        let status = Status::from(AskError::Overdrawn { tenant, shortage });
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains(words), "{status}");
        let retry = status.get_details_retry_info().unwrap();
        assert_eq!(retry.retry_delay, Some(again_in));
    }
}

/// One may have that for its name.
#[test]
fn the_tenant_without_a_name_is_not_taken_for_one_that_is_called_default() {
    let again_in = Duration::from_secs(9);
    let errors = |tenant: &Tenant| {
        let tenant = || tenant.clone();
        let what = "tokens";
        let short = [
            Shortage::UsedUp { what, again_in },
            Shortage::SetAside { what, again_in },
            Shortage::Strangers { again_in },
        ];
        let short = short.map(|shortage| AskError::Overdrawn {
            tenant: tenant(),
            shortage,
        });
        let busy = AskError::TenantBusy {
            tenant: tenant(),
            most: 2,
            wait: InVain::NoLine,
        };
        let find = FindError::Short {
            tenant: tenant(),
            left: 1,
            look_ups: 2,
            again_in,
        };
        let mut told: Vec<_> = short.iter().map(ToString::to_string).collect();
        told.extend([busy.to_string(), find.to_string()]);
        told
    };
    let nameless = errors(&Tenant::default());
    let named = errors(&Tenant::new("default").unwrap());
    for (nameless, named) in nameless.iter().zip(&named) {
        assert!(nameless.contains("the tenant without a name"), "{nameless}");
        assert!(named.contains("tenant default"), "{named}");
    }
}

/// Whatever is quoted in them: clients of gRPC refuse longer trailers.
#[test]
fn messages_fit_into_trailers() {
    for quoted in ["x", "字"].map(|one| one.repeat(100_000)) {
        let error = || PortError::malformed("model at h:1", &*quoted);
        let host = quoted.clone();
        for status in [
            Status::from(AskError::from(error())),
            Status::from(&FindError::Ask(error().into())),
            Status::from(TransportError::OtherHost { host }),
        ] {
            assert!(status.message().ends_with('…'), "{}", status.code());
            let mut trailers = HeaderMap::new();
            status.add_header(&mut trailers).unwrap();
            let sizes = trailers.iter();
            let sizes = sizes.map(|(name, value)| name.as_str().len() + value.len());
            let bytes: usize = sizes.sum();
            assert!(bytes < 16 << 10, "{bytes}");
        }
    }
}

#[test]
fn operators_hear_why_and_which_field() {
    let offered = "hot, none".to_owned();
    let none = Status::from(AdminError::NoSpeculator { offered });
    assert_eq!(none.code(), Code::NotFound);
    assert_eq!(
        none.message(),
        "there is no such speculator; this server has hot, none"
    );
    let wrong = AdminError::Invalid(vec![FieldViolation::new("k", "too many")]);
    let wrong = Status::from(wrong);
    assert_eq!(wrong.code(), Code::InvalidArgument);
    assert_eq!(wrong.message(), "k: too many");
    let fields = wrong.get_details_bad_request().unwrap().field_violations;
    assert_eq!(fields[0].field, "k");
    let busy = Status::from(AdminError::Busy { callers_max: 7 });
    assert_eq!(busy.code(), Code::ResourceExhausted);
    assert!(busy.get_details_retry_info().is_some());
    assert_eq!(Status::from(AdminError::Lost).code(), Code::Internal);
}
