//! Configures the loopback interface by rtnetlink: brings it up, adds and removes addresses. Needs no external
//! program.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, sendto, socket_with};

const LOOPBACK: &str = "lo";

/// Constants of linux/netlink.h, linux/rtnetlink.h and linux/if.h.
const ACKNOWLEDGE: u16 = 0x1 | 0x4;
const CREATE_ONLY: u16 = 0x400 | 0x200;
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
const ANSWER: u16 = 2;
const IS_UP: u32 = 1;
const IPV4: u8 = 2;
const SCOPE_HOST: u8 = 254;
const ATTRIBUTE_ADDRESS: u16 = 1;
const ATTRIBUTE_LOCAL: u16 = 2;

const HEADER_BYTES: usize = 16;

/// An acknowledgment repeats the request after its own header and code.
const ANSWER_BYTES_MAX: usize = 512;

pub fn enable_loopback() -> io::Result<()> {
    let netlink = Netlink::open()?;
    let mut body = vec![0, 0, 0, 0];
    body.extend(netlink.loopback.to_ne_bytes());
    body.extend(IS_UP.to_ne_bytes());
    body.extend(IS_UP.to_ne_bytes());
    netlink.request(NEW_LINK, ACKNOWLEDGE, &body)
}

/// Fails with `AlreadyExists` if the interface has the address.
pub fn add_to_loopback(address: Ipv4Addr) -> io::Result<()> {
    let netlink = Netlink::open()?;
    netlink.request(NEW_ADDRESS, ACKNOWLEDGE | CREATE_ONLY, &netlink.address(address))
}

pub fn remove_from_loopback(address: Ipv4Addr) -> io::Result<()> {
    let netlink = Netlink::open()?;
    netlink.request(DELETE_ADDRESS, ACKNOWLEDGE, &netlink.address(address))
}

struct Netlink {
    socket: OwnedFd,
    loopback: u32,
}

impl Netlink {
    fn open() -> io::Result<Netlink> {
        // The default protocol is NETLINK_ROUTE, which is 0.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let loopback = netdevice::name_to_index(&any, LOOPBACK)?;
        Ok(Netlink { socket, loopback })
    }

    fn address(&self, address: Ipv4Addr) -> Vec<u8> {
        let mut body = vec![IPV4, 32, 0, SCOPE_HOST];
        body.extend(self.loopback.to_ne_bytes());
        for attribute in [ATTRIBUTE_LOCAL, ATTRIBUTE_ADDRESS] {
            body.extend(8_u16.to_ne_bytes());
            body.extend(attribute.to_ne_bytes());
            body.extend(address.octets());
        }
        body
    }

    fn request(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        let length = u32::try_from(HEADER_BYTES + body.len()).map_err(io::Error::other)?;
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        sendto(&self.socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answer = [0; ANSWER_BYTES_MAX];
        let (received, _) = recv(&self.socket, &mut answer, RecvFlags::empty())?;
        decode_ack(&answer[..received])
    }
}

/// Decodes an acknowledgment: zero, or a negative error number.
fn decode_ack(answer: &[u8]) -> io::Result<()> {
    let malformed = || io::Error::other("unexpected answer from the kernel");
    let kind: [u8; 2] = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).ok_or_else(malformed)?;
    let code: [u8; 4] = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).ok_or_else(malformed)?;
    match (u16::from_ne_bytes(kind), i32::from_ne_bytes(code)) {
        (ANSWER, 0) => Ok(()),
        (ANSWER, code) => Err(Errno::from_raw_os_error(-code).into()),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_success_or_an_error() {
        let answer = |kind: u16, code: i32| {
            let mut bytes = vec![0; 4];
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(code.to_ne_bytes());
            decode_ack(&bytes)
        };
        assert!(answer(ANSWER, 0).is_ok());
        assert_eq!(answer(ANSWER, -17).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(answer(3, 0).is_err());
        assert!(decode_ack(&[0; 8]).is_err());
    }
}
