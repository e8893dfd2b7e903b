//! The OpenAPI document, made from the table of routes: what is not in the table is not served, and
//! what is served is in the document.

use http::{Method, StatusCode};
use utoipa::openapi::content::{Content, ContentBuilder};
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, ComponentsBuilder, Object, ObjectBuilder, Ref, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder, PathsBuilder, RefOr, Required, ResponseBuilder};
use utoipa::{IntoParams, ToSchema};

use super::routes::{Route, table};
use super::service::HEALTH_PATH;
use super::text::Word;

const JSON: &str = "application/json";
const SCHEME: &str = "token";
const ERROR: &str = "ErrorBody";

type Schemas = Vec<(String, RefOr<Schema>)>;

/// What the document says of one route.
pub struct Doc {
    id: &'static str,
    summary: &'static str,
    parameters: Vec<Parameter>,
    body: Option<(RefOr<Schema>, Required)>,
    answers: Vec<(StatusCode, Option<(&'static str, Content)>)>,
    schemas: Schemas,
}

impl Doc {
    pub fn new(id: &'static str, summary: &'static str) -> Doc {
        Doc { id, summary, parameters: Vec::new(), body: None, answers: Vec::new(), schemas: Vec::new() }
    }

    pub fn query<Q: IntoParams>(mut self) -> Doc {
        self.parameters.extend(Q::into_params(|| Some(ParameterIn::Query)));
        self
    }

    pub fn body<B: ToSchema>(mut self) -> Doc {
        self.body = Some((refer::<B>(&mut self.schemas), Required::True));
        self
    }

    /// A body that may be left out.
    pub fn may_body<B: ToSchema>(mut self) -> Doc {
        self.body = Some((refer::<B>(&mut self.schemas), Required::False));
        self
    }

    pub fn answer<T: ToSchema>(mut self, status: StatusCode) -> Doc {
        let content = ContentBuilder::new().schema(Some(refer::<T>(&mut self.schemas))).build();
        self.answers.push((status, Some((JSON, content))));
        self
    }

    /// One page of a list.
    pub fn page<T: ToSchema>(mut self) -> Doc {
        let entry = refer::<T>(&mut self.schemas);
        let page = ObjectBuilder::new()
            .property("value", ArrayBuilder::new().items(entry))
            .property("next", ObjectBuilder::new().schema_type(Type::String))
            .required("value");
        let content = ContentBuilder::new().schema(Some(RefOr::T(Schema::Object(page.build())))).build();
        self.answers.push((StatusCode::OK, Some((JSON, content))));
        self
    }

    pub fn text(mut self, content_type: &'static str) -> Doc {
        let schema = ObjectBuilder::new().schema_type(Type::String).build();
        let content = ContentBuilder::new().schema(Some(RefOr::T(Schema::Object(schema)))).build();
        self.answers.push((StatusCode::OK, Some((content_type, content))));
        self
    }

    pub fn any_json(mut self) -> Doc {
        let schema = ObjectBuilder::new().build();
        let content = ContentBuilder::new().schema(Some(RefOr::T(Schema::Object(schema)))).build();
        self.answers.push((StatusCode::OK, Some((JSON, content))));
        self
    }

    pub fn no_content(mut self) -> Doc {
        self.answers.push((StatusCode::NO_CONTENT, None));
        self
    }

    pub fn header(mut self, name: &str, description: &str) -> Doc {
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

    fn refusals(&self, route: &Route) -> Vec<StatusCode> {
        let mut refusals = vec![
            StatusCode::BAD_REQUEST,
            StatusCode::FORBIDDEN,
            StatusCode::INTERNAL_SERVER_ERROR,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        if route.path != HEALTH_PATH {
            refusals.push(StatusCode::UNAUTHORIZED);
        }
        let names_things = route.path.contains('{') || self.body.is_some() || !self.parameters.is_empty();
        if names_things {
            refusals.extend([StatusCode::NOT_FOUND, StatusCode::CONFLICT]);
        }
        if self.body.is_some() {
            refusals.extend([
                StatusCode::REQUEST_TIMEOUT,
                StatusCode::PAYLOAD_TOO_LARGE,
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ]);
        }
        refusals
    }

    fn operation(&self, route: &Route) -> Operation {
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
        for (status, content) in &self.answers {
            let reason = status.canonical_reason().unwrap_or_default();
            let mut response = ResponseBuilder::new().description(reason);
            if let Some((content_type, content)) = content {
                response = response.content(*content_type, content.clone());
            }
            operation = operation.response(status.as_str(), response);
        }
        for status in self.refusals(route) {
            let error = RefOr::Ref(Ref::from_schema_name(ERROR));
            let content = ContentBuilder::new().schema(Some(error)).build();
            let reason = status.canonical_reason().unwrap_or_default();
            operation =
                operation.response(status.as_str(), ResponseBuilder::new().description(reason).content(JSON, content));
        }
        if route.path == HEALTH_PATH {
            operation = operation.securities(Some([SecurityRequirement::default()]));
        }
        operation.build()
    }
}

pub fn document() -> OpenApi {
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let mut components = ComponentsBuilder::new().security_scheme(SCHEME, SecurityScheme::Http(scheme));
    let mut schemas = Schemas::new();
    schemas.push((ERROR.to_owned(), RefOr::T(Schema::Object(error_body()))));
    let mut paths = PathsBuilder::new().build();
    for route in table() {
        let method = http_method(&route.method);
        paths.add_path_operation(route.path, vec![method], route.doc.operation(&route));
        schemas.extend(route.doc.schemas);
    }
    for (name, schema) in schemas {
        components = components.schema(name, schema);
    }
    let info = InfoBuilder::new()
        .title("Forewarn management API")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Scheduled events for any fleet of virtual machines: the fleet, what is planned for it, and what became of it."));
    OpenApiBuilder::new()
        .info(info.build())
        .paths(paths)
        .components(Some(components.build()))
        .security(Some([SecurityRequirement::new(SCHEME, Vec::<String>::new())]))
        .build()
}

/// The body of every refusal, which `wire` writes.
fn error_body() -> Object {
    let text = |description: &str| ObjectBuilder::new().schema_type(Type::String).description(Some(description));
    let error = ObjectBuilder::new()
        .property("code", text("One word for programs."))
        .property("message", text("What is wrong and what to do, for people."))
        .property("target", text("The field, parameter or thing that it is about."))
        .required("code")
        .required("message");
    ObjectBuilder::new().property("error", error).required("error").build()
}

fn refer<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
    RefOr::Ref(Ref::from_schema_name(T::name()))
}

/// The resource, which is the first word after the prefix.
fn tag(path: &str) -> &str {
    path.strip_prefix(super::routes::PREFIX).unwrap_or(path).trim_start_matches('/').split('/').next().unwrap_or(path)
}

fn path_parameters(path: &str) -> Vec<Parameter> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(path_parameter).collect()
}

fn path_parameter(name: &str) -> Parameter {
    let (description, format) = match name {
        "machine" => ("A vmId, group~name (or group%2Fname), or a name that is unique.", None),
        "event" => ("The id of an event.", Some("uuid")),
        "operation" => ("The id of an operation.", Some("uuid")),
        "host" => ("The name of a host.", None),
        "webhook" => ("The name of a web hook.", None),
        "fault" => ("The number of a fault.", None),
        _ => ("resourceGroup~name (or resourceGroup%2Fname), or a name that is unique.", None),
    };
    let mut schema = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
    schema = match format {
        Some(format) => schema.format(Some(utoipa::openapi::SchemaFormat::Custom(format.to_owned()))),
        None => schema.pattern(Some(Word::PATTERN)),
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn served() -> BTreeSet<(String, String)> {
        table().iter().map(|route| (route.path.to_owned(), route.method.as_str().to_lowercase())).collect()
    }

    fn documented(document: &serde_json::Value) -> BTreeSet<(String, String)> {
        let paths = document["paths"].as_object().unwrap();
        let methods = |item: &serde_json::Value| item.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        paths
            .iter()
            .flat_map(|(path, item)| methods(item).into_iter().map(move |method| (path.clone(), method)))
            .collect()
    }

    #[test]
    fn the_document_has_every_route_and_no_other() {
        let document = serde_json::to_value(document()).unwrap();
        assert_eq!(documented(&document), served());
        assert_eq!(served().len(), table().len(), "a route stands in the table twice");
    }

    #[test]
    fn every_reference_in_the_document_leads_somewhere() {
        let document = serde_json::to_value(document()).unwrap();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer} is not there");
        }
    }

    #[test]
    fn operation_ids_are_unique() {
        let ids: BTreeSet<_> = table().iter().map(|route| route.doc.id).collect();
        assert_eq!(ids.len(), table().len());
    }

    #[test]
    fn every_route_says_how_it_succeeds() {
        for route in table() {
            assert!(!route.doc.answers.is_empty(), "{} {}", route.method, route.path);
        }
    }
}
