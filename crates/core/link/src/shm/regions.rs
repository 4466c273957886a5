//! Regions that this end exports and those that its peer does.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use overside_base::lock;

use super::handshake::{Kind, message, parse};
use super::mapping::{self, Mapping};
use super::socket::{Received, send};
use crate::verbs::{Access, ExportError, ImportError, LinkConfig, LinkErrorKind, Token};
use crate::volatile_slice::VolatileSlice;

/// Maximum number of regions that one end exports at a time.
pub(super) const MAX_EXPORTS: usize = 256;
/// The longest region in bytes.
pub(super) const MAX_EXPORT_BYTES: u64 = 4 << 30;

fn code(access: Access) -> u64 {
    match access {
        Access::Read => 1,
        Access::Write => 2,
        Access::ReadWrite => 3,
    }
}

fn access(code: u64) -> Option<Access> {
    [Access::Read, Access::Write, Access::ReadWrite]
        .into_iter()
        .find(|access| self::code(*access) == code)
}

/// Contents of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TokenFields {
    /// The link's.
    nonce: u64,
    /// The end that exports: 1 if it is the one that listened.
    end: u64,
    id: u64,
    len: u64,
    access: Access,
}

impl TokenFields {
    fn token(&self) -> Token {
        let words = [self.nonce, self.end, self.id, self.len, code(self.access)];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Token::from_bytes(&bytes).expect("it is short")
    }

    fn parse(token: &Token) -> Option<Self> {
        let bytes: &[u8; 40] = token.as_bytes().try_into().ok()?;
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let mut next = || words.next();
        Some(Self {
            nonce: next()?,
            end: next()?,
            id: next()?,
            len: next()?,
            access: access(next()?)?,
        })
    }
}

/// A region that the peer offers.
struct Offer {
    file: OwnedFd,
    len: u64,
    access: Access,
    /// Imported already, and still in use.
    imported: Weak<Imported>,
}

#[derive(Default)]
struct Tables {
    offers: HashMap<u64, Offer>,
    /// Regions exported and not withdrawn.
    exports: usize,
    next_id: u64,
}

/// Both ends' regions, as far as this end knows.
pub(super) struct Regions {
    nonce: u64,
    listens: bool,
    max_import_bytes: u64,
    imported_bytes: Arc<AtomicU64>,
    tables: Mutex<Tables>,
}

/// Memory of the peer's, mapped here.
#[derive(Debug)]
pub(super) struct Imported {
    mapping: Mapping,
    total: Arc<AtomicU64>,
}

impl Imported {
    /// All of the imported memory.
    pub(super) fn window(&self) -> VolatileSlice {
        self.mapping.window()
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        let len = self.window().len() as u64;
        self.total.fetch_sub(len, Ordering::Relaxed);
    }
}

/// Memory of this end's, mapped by both. Withdrawn when it is dropped.
pub(super) struct Area {
    pub(super) mapping: Mapping,
    pub(super) token: Token,
    id: u64,
}

impl Regions {
    pub(super) fn new(nonce: u64, listens: bool, config: &LinkConfig) -> Self {
        Self {
            nonce,
            listens,
            max_import_bytes: config.max_import_bytes,
            imported_bytes: Arc::new(AtomicU64::new(0)),
            tables: Mutex::default(),
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.tables)
    }

    /// Makes a region and offers it to the peer.
    pub(super) fn export(
        &self,
        socket: &OwnedFd,
        len: usize,
        access: Access,
    ) -> Result<Area, ExportError> {
        if len == 0 || len as u64 > MAX_EXPORT_BYTES {
            let max = MAX_EXPORT_BYTES;
            return Err(ExportError::Length { len, max });
        }
        let failed = |error: std::io::Error| ExportError::Failed {
            len,
            reason: match error.kind() {
                std::io::ErrorKind::WouldBlock => "the peer does not listen".to_owned(),
                _ => error.to_string(),
            },
        };
        let file = mapping::create(len as u64).map_err(failed)?;
        let mapping = Mapping::new(&file, len, true).map_err(failed)?;
        mapping::seal(&file, !access.writes()).map_err(failed)?;
        // Held while sending, so that the peer hears of regions in the order of their ids.
        let mut tables = self.tables();
        if tables.exports == MAX_EXPORTS {
            return Err(ExportError::TooMany { max: MAX_EXPORTS });
        }
        let fields = TokenFields {
            nonce: self.nonce,
            end: self.listens.into(),
            id: tables.next_id,
            len: len as u64,
            access,
        };
        let offer = message(Kind::Export, &[fields.id, fields.len, code(access)]);
        send(socket, &offer, &[file.as_fd()]).map_err(failed)?;
        tables.next_id += 1;
        tables.exports += 1;
        Ok(Area { mapping, token: fields.token(), id: fields.id })
    }

    /// Informs the peer that a region can no longer be imported. If that fails, the region keeps its slot,
    /// because the peer still counts it.
    pub(super) fn withdraw(&self, socket: &OwnedFd, area: &Area) {
        let mut tables = self.tables();
        if send(socket, &message(Kind::Withdraw, &[area.id]), &[]).is_ok() {
            tables.exports -= 1;
        }
    }

    /// Handles a message of the peer about its regions.
    pub(super) fn on_message(&self, received: Received) -> Result<(), LinkErrorKind> {
        let Received { words, descriptors } = received;
        let mut tables = self.tables();
        if let Some([id, len, code]) = parse(&words, Kind::Export) {
            let access = access(code).ok_or_else(|| broken("it offers a region for nothing"))?;
            let mut files = descriptors.into_iter();
            let (Some(file), None) = (files.next(), files.next()) else {
                return Err(broken("it offers a region without memory"));
            };
            if tables.offers.len() == MAX_EXPORTS || tables.offers.contains_key(&id) {
                return Err(broken("it offers more regions than there can be"));
            }
            let offer = Offer { file, len, access, imported: Weak::new() };
            tables.offers.insert(id, offer);
            return Ok(());
        }
        match parse(&words, Kind::Withdraw) {
            Some([id]) if tables.offers.remove(&id).is_some() => Ok(()),
            Some([id]) => Err(broken(&format!("it withdraws region {id}, which is none"))),
            None => Err(broken("it says something unknown")),
        }
    }

    /// Maps the region of a token.
    pub(super) fn import(
        &self,
        token: &Token,
    ) -> Result<(Arc<Imported>, u64, Access), ImportError> {
        let fields = TokenFields::parse(token).ok_or_else(|| ImportError::malformed(token))?;
        let peer = u64::from(!self.listens);
        if fields.nonce != self.nonce || fields.end != peer {
            return Err(ImportError::Unknown);
        }
        let mut tables = self.tables();
        let offer = tables.offers.get_mut(&fields.id).ok_or(ImportError::Unknown)?;
        if offer.len != fields.len || offer.access != fields.access {
            return Err(ImportError::Refused(
                "its token says something else than its offer".into(),
            ));
        }
        if let Some(imported) = offer.imported.upgrade() {
            return Ok((imported, fields.len, fields.access));
        }
        let too_much = ImportError::TooMuch { len: fields.len, max: self.max_import_bytes };
        // Only ever added to under the lock.
        let total = self.imported_bytes.load(Ordering::Relaxed);
        if fields.len > self.max_import_bytes.saturating_sub(total) {
            return Err(too_much);
        }
        let len = usize::try_from(fields.len).map_err(|_| too_much)?;
        if len == 0 {
            return Err(ImportError::Refused("it is empty".into()));
        }
        mapping::check(&offer.file, fields.len).map_err(ImportError::Refused)?;
        let mapping = Mapping::new(&offer.file, len, fields.access.writes())
            .map_err(|error| ImportError::Failed(error.to_string()))?;
        self.imported_bytes.fetch_add(fields.len, Ordering::Relaxed);
        let imported = Arc::new(Imported { mapping, total: Arc::clone(&self.imported_bytes) });
        offer.imported = Arc::downgrade(&imported);
        Ok((imported, fields.len, fields.access))
    }
}

fn broken(what: &str) -> LinkErrorKind {
    LinkErrorKind::Protocol(what.to_owned())
}
