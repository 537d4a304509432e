//! A program that serves over its standard input and output. It ends with the connection, and with
//! everything that it started.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::ExposeSecret;
use spechop_types::one_line;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::options::Program;

/// How long a program may take to end after its input has ended.
const FAREWELL: Duration = Duration::from_secs(2);
/// What is kept of what a program said on its way out, in lines and bytes a line.
const LAST_WORDS: usize = 3;
const LINE_BYTES_MAX: u64 = 500;

/// What is known of the end of a connection.
#[derive(Debug, Default)]
pub(crate) struct Fate(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Nothing more is heard of it.
    has_ended: bool,
    exit: Option<ExitStatus>,
    too_long: Option<usize>,
    last_words: VecDeque<String>,
}

impl Fate {
    /// Whether the connection has ended, although its program may not be gone yet.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.lock().has_ended
    }

    /// Longest message in bytes, if the server has written a longer one.
    pub(crate) fn too_long(&self) -> Option<usize> {
        self.0.lock().too_long
    }

    /// Why the connection ended, in a few words that are all our own.
    pub(crate) fn story(&self) -> String {
        let known = self.0.lock();
        match (known.too_long, known.exit) {
            (Some(most), _) => format!("it wrote a message of more than {most} bytes"),
            (None, Some(exit)) => format!("it ended ({exit})"),
            (None, None) => "it closed the connection".to_owned(),
        }
    }

    /// What the program logged last, for its operator alone: programs log keys, and what others have asked.
    pub(crate) fn last_words(&self) -> Option<String> {
        let known = self.0.lock();
        let words: Vec<_> = known.last_words.iter().map(String::as_str).collect();
        (!words.is_empty()).then(|| words.join(" | "))
    }
}

/// The pipes of a running program.
pub(crate) struct Pipes {
    messages: AsyncRwTransport<RoleClient, Bounded<ChildStdout>, ChildStdin>,
    group: Group,
    fate: Arc<Fate>,
    /// Reads its log until it ends.
    log: JoinSet<()>,
    /// Nothing more is heard of it, and until then it may end by itself.
    ends_by: Option<Instant>,
}

impl Pipes {
    /// Starts the program in a process group of its own, with no more environment than it is given.
    pub(crate) fn open(program: &Program, bytes_max: usize) -> io::Result<(Self, Arc<Fate>)> {
        let (name, arguments) = program
            .command
            .split_first()
            .ok_or_else(|| io::Error::other("no program is named"))?;
        let mut command = Command::new(name);
        command
            .args(arguments)
            .env_clear()
            .envs(
                program
                    .env
                    .iter()
                    .map(|(name, value)| (name, value.expose_secret())),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(dir) = &program.dir {
            command.current_dir(dir);
        }
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let fate = Arc::new(Fate::default());
        let output = Bounded {
            inner: output,
            line: 0,
            most: bytes_max,
            fate: Arc::clone(&fate),
        };
        let mut log = JoinSet::new();
        log.spawn(follow(stderr, name.clone(), Arc::clone(&fate)));
        let pipes = Self {
            // Ours is the limit that counts; theirs would drop a long message in silence.
            messages: AsyncRwTransport::new(output, input).with_max_line_length(usize::MAX),
            group: Group::of(child),
            fate: Arc::clone(&fate),
            log,
            ends_by: None,
        };
        Ok((pipes, fate))
    }
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.messages.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        // Whoever waits here turns to something else at any moment, and then begins anew: what has ended
        // stays so.
        if self.ends_by.is_none()
            && let Some(message) = self.messages.receive().await
        {
            return Some(message);
        }
        // Whoever hears of the end asks why.
        self.end().await;
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        self.end().await;
        Ok(())
    }
}

impl Pipes {
    /// Ends the input, which asks the program to end, waits for that, and ends the program if it does not.
    async fn end(&mut self) {
        let patience = match self.fate.too_long() {
            // It is known why, and it may write on for ever.
            Some(_) => Duration::ZERO,
            None => FAREWELL,
        };
        self.fate.0.lock().has_ended = true;
        let by = *self
            .ends_by
            .get_or_insert_with(|| Instant::now() + patience);
        let ended = async {
            // A message that the program does not read may hold it up.
            let _ = self.messages.close().await;
            self.group.child.wait().await
        };
        if let Ok(Ok(exit)) = timeout_at(by, ended).await {
            self.fate.0.lock().exit = Some(exit);
        }
        self.group.kill();
        // What it wrote last tells why it ended.
        let _ = timeout_at(by + FAREWELL, self.log.join_next()).await;
    }
}

/// A program and whatever it started.
struct Group {
    child: Child,
    id: Option<Pid>,
}

impl Group {
    fn of(child: Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self {
            id: id.and_then(Pid::from_raw),
            child,
        }
    }

    /// Ends what is left of it, once: later the number may be somebody else's.
    fn kill(&mut self) {
        if let Some(group) = self.id.take() {
            // Nobody is left, as a rule.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes what the program logs to our log, and keeps the end of it.
async fn follow(stderr: ChildStderr, program: String, fate: Arc<Fate>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut piece = (&mut stderr).take(LINE_BYTES_MAX);
        if !matches!(piece.read_until(b'\n', &mut line).await, Ok(1..)) {
            return;
        }
        // It is shown on terminals, too, which it must not steer.
        let text = one_line(&String::from_utf8_lossy(&line));
        if text.is_empty() {
            continue;
        }
        tracing::debug!(program, text, "MCP server");
        let mut known = fate.0.lock();
        if known.last_words.len() == LAST_WORDS {
            known.last_words.pop_front();
        }
        known.last_words.push_back(text);
    }
}

/// Ends at the first line that is longer than it may be, and says so.
struct Bounded<R> {
    inner: R,
    /// Bytes since the last end of a line.
    line: usize,
    most: usize,
    fate: Arc<Fate>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        for byte in &buffer.filled()[before..] {
            self.line = if *byte == b'\n' { 0 } else { self.line + 1 };
            if self.line > self.most {
                self.fate.0.lock().too_long = Some(self.most);
                buffer.set_filled(before);
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}
