//! Lets hosts join: issues tokens, and exchanges them for certificates.

use forewarn_access::HostAccess;
use forewarn_api_types::{HostToken, JoinResponse, NewJoin, ResourceName};
use forewarn_core::{Command, Name};
use forewarn_engine::{AuditEntry, Bundle};
use forewarn_render::Convert;

use crate::action::Action;
use crate::audit_detail::AuditDetail;
use crate::error::{ApiError, ErrorCode};
use crate::{Actions, HostEnrollment, Service};

/// The separator in a token: the name of the host, and a secret.
const SEPARATOR: char = ':';

impl Actions {
    /// Creates a token with which a host joins. The host need not be registered. An earlier token of the host no longer works.
    pub async fn create_host_token(&self, name: &str) -> Result<HostToken, ApiError> {
        let permit = self.permit(Action::CreateHostToken)?;
        let HostEnrollment { access, .. } = enrollment(self.service())?;
        let ResourceName(name) = ResourceName::new(name.to_owned())
            .map_err(|reason| ApiError::new(ErrorCode::InvalidPath, format!("{reason}.")).with_target("host"))?;
        let new = access.new_token(&name, self.engine().now());
        let (token, until, attachment) = (new.token, new.until, new.attachment);
        self.commit(Vec::new(), permit.note(name.as_str()), move |_| vec![attachment]).await?;
        Ok(HostToken { token: format!("{name}{SEPARATOR}{token}"), host: name, expires: until.convert() })
    }

    /// The host was removed: its certificate is no longer valid.
    pub(super) fn forget_certificates(&self, host: &Name) {
        if let Some(HostEnrollment { access, .. }) = self.service().enrollment()
            && self.engine().snapshot().region.host(host).is_none()
        {
            access.forget(host);
        }
    }
}

impl Service {
    /// Exchanges a token for a certificate and registers the host. Earlier certificates of the host are revoked.
    pub async fn join_host(&self, join: NewJoin) -> Result<JoinResponse, ApiError> {
        let HostEnrollment { access, port, servers } = enrollment(self)?;
        let refused = || {
            let message =
                "The token is invalid, was used, or has expired. Create a new one with `forewarn host token NAME`.";
            ApiError::new(ErrorCode::JoinRefused, message)
        };
        let (host, secret) = join.token.split_once(SEPARATOR).ok_or_else(refused)?;
        let _turn = access.joining.lock().await;
        if !self.is_join_token(access.clone(), host, secret).await? {
            return Err(refused());
        }
        let signed = access
            .sign_join(&join.request, host)
            .map_err(|error| ApiError::new(ErrorCode::InvalidField, format!("{error}.")).with_target("request"))?;
        let attachments = vec![HostAccess::remove_token(host), signed.attachment.clone()];
        let asked = AuditEntry {
            actor: format!("host:{host}"),
            action: "host.join".into(),
            target: host.to_owned(),
            detail: AuditDetail::Nothing {}.to_json(),
        };
        let commands = vec![Command::RegisterHost { name: host.into() }];
        let bundle = Bundle { commands, audit: Some(asked), attach: Box::new(move |_| attachments) };
        self.engine().submit_all(bundle).await?;
        let certificate = access.accept(signed);
        let authority = access.authority().to_owned();
        Ok(JoinResponse { host: host.to_owned(), certificate, authority, port: *port, servers: servers() })
    }

    async fn is_join_token(
        &self,
        access: std::sync::Arc<HostAccess>,
        host: &str,
        secret: &str,
    ) -> Result<bool, ApiError> {
        let (host, secret, now) = (host.to_owned(), secret.to_owned(), self.engine().now());
        let read = self.engine().read(move |reader| access.is_token(reader, &host, &secret, now)).await;
        read.map_err(|error| {
            tracing::error!(%error, "cannot read a join token");
            ApiError::new(ErrorCode::StoreUnreadable, "The token cannot be read. See the server's log.")
        })
    }
}

fn enrollment(service: &Service) -> Result<&HostEnrollment, ApiError> {
    service.enrollment().ok_or_else(|| {
        let message =
            "This server has no listener for hosts. Start it with --hosts ADDR, such as --hosts 0.0.0.0:8172.";
        ApiError::new(ErrorCode::NoHostListener, message)
    })
}
