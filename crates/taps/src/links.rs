//! Learns from the kernel that network interfaces or their addresses have changed.

use std::io;
use std::os::unix::net::UnixDatagram as StdDatagram;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use tokio::net::UnixDatagram;

/// The groups of messages about interfaces and their addresses (RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR).
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

/// Messages are not read, so they may be cut.
const MESSAGE_BYTES: usize = 64;

/// A netlink socket. Receiving without an address is the same for all datagram sockets, so the type for Unix sockets serves.
pub struct LinkChanges(UnixDatagram);

impl LinkChanges {
    pub fn subscribe() -> io::Result<LinkChanges> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // The default protocol is NETLINK_ROUTE, which is 0.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(LinkChanges(UnixDatagram::from_std(StdDatagram::from(socket))?))
    }

    /// Waits for a change, and takes all messages that have arrived. Messages that were dropped count as a change.
    pub async fn changed(&self) -> io::Result<()> {
        let mut message = [0; MESSAGE_BYTES];
        match self.0.recv(&mut message).await {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        while self.0.try_recv(&mut message).is_ok() {}
        Ok(())
    }
}
