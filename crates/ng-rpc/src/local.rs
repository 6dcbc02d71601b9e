//! [`LocalStream`]: a connection over a Unix socket that is not woken for nothing.
//!
//! The system reports each time that the other side has read what was written as new room to write.
//! A stream that listens for that all the time is woken twice for a call: by the answer, and by the
//! server's having read the request. This one listens for room while it has none.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How often it is looked for room where nothing tells of it.
const LOOK: Duration = Duration::from_millis(5);

/// A connection over a Unix socket.
pub(crate) struct LocalStream {
    socket: AsyncFd<UnixStream>,
    /// The same socket while there is no room to write.
    full: Option<AsyncFd<UnixStream>>,
    /// When to look for room, where no second descriptor can be had to listen for it.
    look: Option<Pin<Box<Sleep>>>,
    #[cfg(test)]
    has_no_second: bool,
}

impl LocalStream {
    /// Takes over a connection, within a runtime.
    pub(crate) fn new(stream: tokio::net::UnixStream) -> io::Result<Self> {
        let socket = listening(stream.into_std()?, Interest::READABLE)?;
        Ok(Self {
            socket,
            full: None,
            look: None,
            #[cfg(test)]
            has_no_second: false,
        })
    }

    /// The same socket, to listen for room to write.
    fn second(&self) -> io::Result<AsyncFd<UnixStream>> {
        #[cfg(test)]
        if self.has_no_second {
            return Err(io::Error::other("too many open files"));
        }
        listening(self.socket.get_ref().try_clone()?, Interest::WRITABLE)
    }

    fn poll_room(
        &mut self,
        cx: &mut Context<'_>,
        write: impl Fn(&UnixStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(look) = &mut self.look {
                ready!(look.as_mut().poll(cx));
                self.look = None;
            }
            let written = match &self.full {
                None => write(self.socket.get_ref()),
                Some(full) => {
                    let mut room = ready!(full.poll_write_ready(cx))?;
                    match room.try_io(|full| write(full.get_ref())) {
                        Ok(written) => written,
                        Err(_still_full) => continue,
                    }
                }
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match self.second() {
                        Ok(second) => self.full = Some(second),
                        // Too many files are open: that is no fault of this connection.
                        Err(_) => self.look = Some(Box::pin(sleep(LOOK))),
                    }
                }
                done => {
                    self.full = None;
                    return Poll::Ready(done);
                }
            }
        }
    }
}

/// What is told of a socket.
fn listening(socket: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    // It is deprecated for types that do not own what they register; a stream owns its socket. The
    // function in its place is unsafe.
    #[expect(deprecated)]
    AsyncFd::with_interest(socket, interest)
}

impl AsyncRead for LocalStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let mut there = ready!(this.socket.poll_read_ready(cx))?;
            let free = buffer.initialize_unfilled();
            let asked = free.len();
            match there.try_io(|socket| socket.get_ref().read(free)) {
                Err(_nothing) => {}
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Ok(Ok(count)) => {
                    // Less than was asked for is all there is, so the next read need not look.
                    if count > 0 && count < asked {
                        there.clear_ready();
                    }
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_room(cx, |mut socket| socket.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_room(cx, |mut socket| socket.write_vectored(pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.socket.get_ref().shutdown(Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            ended => Poll::Ready(ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn pair() -> (LocalStream, LocalStream) {
        let (a, b) = tokio::net::UnixStream::pair().expect("sockets");
        (LocalStream::new(a).expect("a stream"), LocalStream::new(b).expect("a stream"))
    }

    #[tokio::test]
    async fn what_does_not_fit_at_once_is_written_as_it_is_read() {
        written_as_it_is_read(false).await;
    }

    #[tokio::test]
    async fn it_is_so_too_where_no_more_files_may_be_open() {
        written_as_it_is_read(true).await;
    }

    async fn written_as_it_is_read(has_no_second: bool) {
        let (mut from, mut to) = pair();
        from.has_no_second = has_no_second;
        let sent: Vec<u8> = (0..4_000_000_u32).map(|at| (at / 7) as u8).collect();
        let expected = sent.clone();
        let write = tokio::spawn(async move {
            from.write_all(&sent).await.expect("written");
            assert!(from.full.is_none(), "it still listens for room");
            from.shutdown().await.expect("ended");
            let mut answer = Vec::new();
            from.read_to_end(&mut answer).await.expect("read");
            answer
        });
        let mut read = Vec::new();
        to.read_to_end(&mut read).await.expect("read");
        assert!(read == expected);
        to.write_all(b"all of it").await.expect("written");
        drop(to);
        assert_eq!(write.await.expect("not panicked"), b"all of it");
    }

    #[tokio::test]
    async fn a_writer_that_waits_for_room_hears_of_the_end() {
        let (mut from, to) = pair();
        let write = tokio::spawn(async move { from.write_all(&vec![0; 4_000_000]).await });
        tokio::task::yield_now().await;
        drop(to);
        let error = write.await.expect("not panicked").expect_err("nobody reads");
        assert!(matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset));
    }
}
