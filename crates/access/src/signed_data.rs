//! Signs a document as PKCS#7 (CMS) signed data: the content, the signer's certificate, and one signature over the content.
//!
//! The structure is fixed, so it is written as DER here. A general CMS library would bring a second set of certificate and
//! signature types next to those of rcgen and ring.

use rcgen::KeyPair;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OCTET_STRING: u8 = 0x04;
/// `[0]`, constructed.
const CONTEXT_0: u8 = 0xa0;

/// INTEGER 1: the version of signed data, and of a signer that is named by issuer and serial number.
const VERSION_1: &[u8] = &[0x02, 1, 1];
/// 1.2.840.113549.1.7.2
const SIGNED_DATA: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 2];
/// 1.2.840.113549.1.7.1
const DATA: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 1];
/// 2.16.840.1.101.3.4.2.1
const SHA256: &[u8] = &[0x06, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];
/// 1.2.840.10045.4.3.2
const ECDSA_WITH_SHA256: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

/// A key with its certificate.
pub struct DocumentSigner {
    /// DER.
    certificate: Vec<u8>,
    /// The names by which verifiers find the certificate, DER.
    issuer_and_serial: Vec<u8>,
    key: EcdsaKeyPair,
    random: SystemRandom,
}

impl std::fmt::Debug for DocumentSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DocumentSigner").finish_non_exhaustive()
    }
}

impl DocumentSigner {
    /// `certificate`: DER, for this key.
    pub fn new(certificate: &[u8], key: &KeyPair) -> anyhow::Result<DocumentSigner> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.serialized_der(), &random);
        let key = key.map_err(|error| anyhow::anyhow!("cannot use the key that signs documents: {error}"))?;
        let issuer_and_serial = issuer_and_serial(certificate);
        let issuer_and_serial = issuer_and_serial.ok_or_else(|| anyhow::anyhow!("not a certificate in DER"))?;
        Ok(DocumentSigner { certificate: certificate.to_vec(), issuer_and_serial, key, random })
    }

    /// The signed document in DER; None if the system has no random numbers.
    pub fn sign(&self, content: &[u8]) -> Option<Vec<u8>> {
        let signature = self.key.sign(&self.random, content).ok()?;
        let signer = encode(
            SEQUENCE,
            &[
                VERSION_1,
                &self.issuer_and_serial,
                &encode(SEQUENCE, &[SHA256]),
                &encode(SEQUENCE, &[ECDSA_WITH_SHA256]),
                &encode(OCTET_STRING, &[signature.as_ref()]),
            ],
        );
        let signed = encode(
            SEQUENCE,
            &[
                VERSION_1,
                &encode(SET, &[&encode(SEQUENCE, &[SHA256])]),
                &encode(SEQUENCE, &[DATA, &encode(CONTEXT_0, &[&encode(OCTET_STRING, &[content])])]),
                &encode(CONTEXT_0, &[&self.certificate]),
                &encode(SET, &[&signer]),
            ],
        );
        Some(encode(SEQUENCE, &[SIGNED_DATA, &encode(CONTEXT_0, &[&signed])]))
    }
}

/// One DER element with these parts as its content.
fn encode(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let digits = &bytes[length.leading_zeros() as usize / 8..];
        out.push(0x80 | digits.len() as u8);
        out.extend_from_slice(digits);
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// `Certificate { tbs { [0] version, serial, algorithm, issuer, … } … }` to `SEQUENCE { issuer, serial }`.
fn issuer_and_serial(certificate: &[u8]) -> Option<Vec<u8>> {
    let (certificate, _) = split(certificate)?;
    let (tbs, _) = split(certificate.content)?;
    let (_version, rest) = split(tbs.content)?;
    let (serial, rest) = split(rest)?;
    let (_algorithm, rest) = split(rest)?;
    let (issuer, _) = split(rest)?;
    Some(encode(SEQUENCE, &[issuer.whole, serial.whole]))
}

struct Element<'a> {
    whole: &'a [u8],
    content: &'a [u8],
}

/// The first DER element, and the bytes after it.
fn split(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let first = usize::from(*bytes.get(1)?);
    let (start, length) = match first {
        0..=0x7f => (2, first),
        0x81..=0x83 => {
            let start = 2 + first - 0x80;
            (start, bytes.get(2..start)?.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)))
        }
        _ => return None,
    };
    let whole = bytes.get(..start + length)?;
    Some((Element { whole, content: &whole[start..] }, &bytes[whole.len()..]))
}

#[cfg(test)]
mod tests {
    use rcgen::CertificateParams;
    use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};

    use super::*;

    #[test]
    fn lengths_have_the_shortest_form() {
        for (length, head) in [
            (0, &[4, 0][..]),
            (127, &[4, 127]),
            (128, &[4, 0x81, 128]),
            (255, &[4, 0x81, 255]),
            (256, &[4, 0x82, 1, 0]),
            (70_000, &[4, 0x83, 1, 0x11, 0x70]),
        ] {
            let content = vec![7; length];
            let encoded = encode(OCTET_STRING, &[&content]);
            assert_eq!(encoded.strip_suffix(&content[..]), Some(head), "{length}");
            assert_eq!(split(&encoded).map(|(element, rest)| (element.content, rest)), Some((&content[..], &[][..])));
        }
    }

    #[test]
    fn broken_der_is_refused() {
        for bytes in
            [&[][..], &[0x30], &[0x30, 5, 1], &[0x30, 0x80, 0, 0], &[0x30, 0x84, 0, 0, 0, 1, 0], &[0x30, 0x82, 1]]
        {
            assert!(split(bytes).is_none() || issuer_and_serial(bytes).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn the_signature_covers_the_content_and_names_the_certificate() {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
        let signer = DocumentSigner::new(certificate.der(), &key).unwrap();
        let signed = signer.sign(b"content").unwrap();
        let (outer, rest) = split(&signed).unwrap();
        assert!(rest.is_empty());
        let content = outer.content.strip_prefix(SIGNED_DATA).expect("signed data");
        assert!(content.windows(7).any(|part| part == b"content"));
        assert!(content.windows(certificate.der().len()).any(|part| part == certificate.der().as_ref()));
        assert!(content.windows(signer.issuer_and_serial.len()).any(|part| part == signer.issuer_and_serial));
        // The signature is the last element; an ECDSA signature is itself a DER sequence.
        let at = signed.windows(ECDSA_WITH_SHA256.len()).rposition(|part| part == ECDSA_WITH_SHA256).unwrap();
        let (signature, _) = split(&signed[at + ECDSA_WITH_SHA256.len()..]).unwrap();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key.public_key_raw());
        public.verify(b"content", signature.content).unwrap();
        public.verify(b"Content", signature.content).unwrap_err();
    }
}
