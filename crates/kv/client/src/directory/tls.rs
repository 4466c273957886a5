//! TLS around the connections of etcd's client, with the keys that agents and replicas use as well.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

use crate::alert::explained;

/// TLS settings of an etcd client: the certificates that it trusts, and the one that it shows.
#[derive(Clone, Debug)]
pub(super) struct TlsConnector(Arc<ClientConfig>);

impl TlsConnector {
    pub(super) fn new(config: Arc<ClientConfig>) -> Self {
        Self(config)
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = TlsTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<TlsTransport>, Error> {
        let Some(transport) = chained else {
            return Ok(None);
        };
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| Error::Tls("no name that a certificate could have"))?;
        let transport: Box<dyn Transport> = Box::new(transport);
        let mut socket = TransportAdapter::new(transport, Arc::clone(&details.current_time));
        socket.set_timeout(details.timeout);
        let mut connection = ClientConnection::new(Arc::clone(&self.0), name)
            .map_err(|error| Error::Io(std::io::Error::other(error)))?;
        if let Err(error) = connection.complete_io(&mut socket) {
            return Err(explained(error, &mut connection, &mut socket).into());
        }
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        let stream = StreamOwned::new(connection, socket);
        Ok(Some(TlsTransport { buffers, stream }))
    }
}

/// A connection.
pub(super) struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

impl TlsTransport {
    fn explained(&mut self, error: std::io::Error) -> Error {
        explained(error, &mut self.stream.conn, &mut self.stream.sock).into()
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        let written = self.stream.write_all(&self.buffers.output()[..amount]);
        written.map_err(|error| self.explained(error))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let read = self.stream.read(self.buffers.input_append_buf());
        let amount = read.map_err(|error| self.explained(error))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
