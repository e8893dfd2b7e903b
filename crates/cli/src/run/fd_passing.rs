//! Passes file descriptors between processes over a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// File descriptors per message; the kernel allows 253.
pub const FILES_MAX: usize = 128;

const SPACE: usize = rustix::cmsg_space!(ScmRights(FILES_MAX));

pub fn send(to: &UnixStream, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    if !buffer.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("too many files"));
    }
    sendmsg(to, &[IoSlice::new(b".")], &mut buffer, SendFlags::empty())?;
    Ok(())
}

/// Returns None if the other end is closed.
pub fn receive(from: &UnixStream) -> io::Result<Option<Vec<OwnedFd>>> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut buffer, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let files = buffer.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok(Some(files.flatten().collect()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn files_arrive_in_order_and_work() {
        let (near, far) = UnixStream::pair().unwrap();
        let pairs = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
        send(&near, &[pairs[0].0.as_fd(), pairs[1].0.as_fd()]).unwrap();
        let received = receive(&far).unwrap().unwrap();
        for (file, (_, other)) in received.into_iter().zip(&pairs) {
            UnixStream::from(file).write_all(b"x").unwrap();
            let mut byte = [0];
            (&*other).read_exact(&mut byte).unwrap();
        }
        drop(near);
        assert!(receive(&far).unwrap().is_none());
    }
}
