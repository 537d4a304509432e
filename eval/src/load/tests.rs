use std::time::Duration;

use super::arrivals::Arrival;
use super::*;

#[test]
fn what_piled_up_in_the_warm_up_is_not_the_most_at_once() {
    let warm_up = Duration::from_secs(5);
    let options = LoadOptions {
        rate: 1.0,
        shape: Shape::Poisson,
        lasting: Duration::from_secs(30),
        warm_up,
        settings: vec!["k=1".parse().unwrap()],
        streams: false,
        reuse: false,
        deadline: Duration::from_secs(60),
        in_flight_max: 10,
        seed: 1,
    };
    let arrival = |at, pair| Arrival {
        at,
        setting: 0,
        pair,
        question: pair,
    };
    let early: Vec<_> = (0..3).map(|pair| arrival(Duration::ZERO, pair)).collect();
    let mut running = Running::new(&options);
    for arrival in &early {
        assert!(running.begin(arrival, Duration::ZERO));
    }
    for arrival in &early {
        running.settle(arrival, Outcome::Unfinished);
    }
    assert!(running.begin(&arrival(warm_up, 3), Duration::ZERO));
    let loaded = running.loaded(options.lasting, options.lasting, false);
    assert_eq!((loaded.warm_up, loaded.in_flight_max), (3, 1));
    assert_eq!(loaded.settings[0].in_flight_max, 1);
}
