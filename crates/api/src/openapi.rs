//! The OpenAPI document, built from the table of routes, so that the document and the served routes cannot differ.

use http::{Method, StatusCode};
use utoipa::openapi::content::{Content, ContentBuilder};
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, ComponentsBuilder, ObjectBuilder, Ref, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder, PathsBuilder, RefOr, Required, ResponseBuilder};
use utoipa::{IntoParams, ToSchema};

use forewarn_access::RequiredAccess;
use forewarn_api_types::{DryRun, ErrorBody, PREFIX, ResourceName};

const JSON: &str = "application/json";
const SCHEME: &str = "token";

type Schemas = Vec<(String, RefOr<Schema>)>;

/// The description of one route.
pub struct RouteDoc {
    pub(super) id: &'static str,
    summary: &'static str,
    parameters: Vec<Parameter>,
    body: Option<(RefOr<Schema>, Required)>,
    pub(super) responses: Vec<(StatusCode, Option<(&'static str, Content)>)>,
    schemas: Schemas,
}

/// A route of the table.
pub struct DocumentedRoute<'a> {
    pub method: &'a Method,
    pub path: &'static str,
    pub needs: RequiredAccess,
    pub doc: &'a RouteDoc,
}

impl RouteDoc {
    pub fn new(id: &'static str, summary: &'static str) -> RouteDoc {
        RouteDoc { id, summary, parameters: Vec::new(), body: None, responses: Vec::new(), schemas: Vec::new() }
    }

    pub fn query<Q: IntoParams>(mut self) -> RouteDoc {
        self.parameters.extend(Q::into_params(|| Some(ParameterIn::Query)));
        self
    }

    pub fn body<B: ToSchema>(mut self) -> RouteDoc {
        self.body = Some((refer::<B>(&mut self.schemas), Required::True));
        self
    }

    /// A body that can be omitted.
    pub fn optional_body<B: ToSchema>(mut self) -> RouteDoc {
        self.body = Some((refer::<B>(&mut self.schemas), Required::False));
        self
    }

    pub fn response<T: ToSchema>(mut self, status: StatusCode) -> RouteDoc {
        let content = ContentBuilder::new().schema(Some(refer::<T>(&mut self.schemas))).build();
        self.responses.push((status, Some((JSON, content))));
        self
    }

    /// One page of a list.
    pub fn page<T: ToSchema>(mut self) -> RouteDoc {
        let entry = refer::<T>(&mut self.schemas);
        let page = ObjectBuilder::new()
            .property("value", ArrayBuilder::new().items(entry))
            .property("next", ObjectBuilder::new().schema_type(Type::String))
            .required("value");
        let content = ContentBuilder::new().schema(Some(RefOr::T(Schema::Object(page.build())))).build();
        self.responses.push((StatusCode::OK, Some((JSON, content))));
        self
    }

    pub fn text(mut self, content_type: &'static str) -> RouteDoc {
        let schema = ObjectBuilder::new().schema_type(Type::String).build();
        let content = ContentBuilder::new().schema(Some(RefOr::T(Schema::Object(schema)))).build();
        self.responses.push((StatusCode::OK, Some((content_type, content))));
        self
    }

    pub fn any_json(mut self) -> RouteDoc {
        let schema = ObjectBuilder::new().build();
        let content = ContentBuilder::new().schema(Some(RefOr::T(Schema::Object(schema)))).build();
        self.responses.push((StatusCode::OK, Some((JSON, content))));
        self
    }

    pub fn no_content(mut self) -> RouteDoc {
        self.responses.push((StatusCode::NO_CONTENT, None));
        self
    }

    /// Documents `dryRun` and the response to it.
    pub fn with_dry_run(mut self) -> RouteDoc {
        let parameter = ParameterBuilder::new()
            .name("dryRun")
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .description(Some("Show the operation and the events that the request would start, without starting them."))
            .schema(Some(ObjectBuilder::new().schema_type(Type::Boolean)));
        self.parameters.push(parameter.build());
        let is_documented = self.responses.iter().any(|(status, _)| *status == StatusCode::OK);
        if is_documented { self } else { self.response::<DryRun>(StatusCode::OK) }
    }

    pub fn header(mut self, name: &str, description: &str) -> RouteDoc {
        let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
        let header = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(description))
            .schema(Some(number));
        self.parameters.push(header.build());
        self
    }

    fn error_statuses(&self, route: &DocumentedRoute<'_>) -> Vec<StatusCode> {
        let mut statuses = vec![
            StatusCode::BAD_REQUEST,
            StatusCode::FORBIDDEN,
            StatusCode::INTERNAL_SERVER_ERROR,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        if route.needs != RequiredAccess::Nothing {
            statuses.push(StatusCode::UNAUTHORIZED);
        }
        let names_resources = route.path.contains('{') || self.body.is_some() || !self.parameters.is_empty();
        if names_resources {
            statuses.extend([StatusCode::NOT_FOUND, StatusCode::CONFLICT]);
        }
        if self.body.is_some() {
            statuses.extend([
                StatusCode::REQUEST_TIMEOUT,
                StatusCode::PAYLOAD_TOO_LARGE,
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ]);
        }
        statuses
    }

    fn operation(&self, route: &DocumentedRoute<'_>) -> Operation {
        let mut operation = OperationBuilder::new()
            .operation_id(Some(self.id))
            .summary(Some(self.summary))
            .tag(tag(route.path))
            .parameters(Some(path_parameters(route.path).into_iter().chain(self.parameters.iter().cloned())));
        if let Some((schema, required)) = &self.body {
            let content = ContentBuilder::new().schema(Some(schema.clone())).build();
            let body = RequestBodyBuilder::new().content(JSON, content).required(Some(required.clone()));
            operation = operation.request_body(Some(body.build()));
        }
        for (status, content) in &self.responses {
            let reason = status.canonical_reason().unwrap_or_default();
            let mut response = ResponseBuilder::new().description(reason);
            if let Some((content_type, content)) = content {
                response = response.content(*content_type, content.clone());
            }
            operation = operation.response(status.as_str(), response);
        }
        for status in self.error_statuses(route) {
            let error = RefOr::Ref(Ref::from_schema_name(ErrorBody::name()));
            let content = ContentBuilder::new().schema(Some(error)).build();
            let reason = status.canonical_reason().unwrap_or_default();
            operation =
                operation.response(status.as_str(), ResponseBuilder::new().description(reason).content(JSON, content));
        }
        if route.needs == RequiredAccess::Nothing {
            operation = operation.securities(Some([SecurityRequirement::default()]));
        }
        operation.build()
    }
}

/// Builds the document.
pub fn document<'a>(routes: impl Iterator<Item = DocumentedRoute<'a>>) -> OpenApi {
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let mut components = ComponentsBuilder::new().security_scheme(SCHEME, SecurityScheme::Http(scheme));
    let mut schemas = Schemas::new();
    refer::<ErrorBody>(&mut schemas);
    let mut paths = PathsBuilder::new().build();
    for route in routes {
        let method = http_method(route.method);
        paths.add_path_operation(route.path, vec![method], route.doc.operation(&route));
        schemas.extend(route.doc.schemas.iter().cloned());
    }
    for (name, schema) in schemas {
        components = components.schema(name, schema);
    }
    let info = InfoBuilder::new()
        .title("Forewarn management API")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Scheduled Events for any fleet of virtual machines: machines and groups, maintenance, events and their history."));
    OpenApiBuilder::new()
        .info(info.build())
        .paths(paths)
        .components(Some(components.build()))
        .security(Some([SecurityRequirement::new(SCHEME, Vec::<String>::new())]))
        .build()
}

fn refer<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
    RefOr::Ref(Ref::from_schema_name(T::name()))
}

/// The resource: the first segment after the prefix.
fn tag(path: &str) -> &str {
    path.strip_prefix(PREFIX).unwrap_or(path).trim_start_matches('/').split('/').next().unwrap_or(path)
}

fn path_parameters(path: &str) -> Vec<Parameter> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(path_parameter).collect()
}

fn path_parameter(name: &str) -> Parameter {
    let (description, format) = match name {
        "machine" => ("vmId, group~name (or group%2Fname), or a unique name.", None),
        "event" => ("ID of an event.", Some("uuid")),
        "operation" => ("ID of an operation.", Some("uuid")),
        "host" => ("Name of a host.", None),
        "webhook" => ("Name of a webhook.", None),
        "fault" => ("Number of a fault.", None),
        _ => ("resourceGroup~name (or resourceGroup%2Fname), or a unique name.", None),
    };
    let mut schema = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
    schema = match format {
        Some(format) => schema.format(Some(utoipa::openapi::SchemaFormat::Custom(format.to_owned()))),
        None => schema.pattern(Some(ResourceName::PATTERN)),
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

fn http_method(method: &Method) -> HttpMethod {
    match *method {
        Method::POST => HttpMethod::Post,
        Method::PUT => HttpMethod::Put,
        Method::PATCH => HttpMethod::Patch,
        Method::DELETE => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}
