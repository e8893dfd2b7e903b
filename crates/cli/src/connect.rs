//! Connects to the server that the connection options name.

use forewarn_api_client::Api;
use forewarn_api_client::failure::Failure;
use forewarn_config::data_directory;
use forewarn_connect::ServerOptions;

use crate::args::Connection;

pub fn connect(connection: &Connection) -> Result<Api, Failure> {
    Api::new(&ServerOptions {
        server: connection.server.clone(),
        token: connection.token.clone(),
        data: connection.data.clone(),
        data_default: data_directory(None).ok(),
    })
}
