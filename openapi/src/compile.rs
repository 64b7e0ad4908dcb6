//! From the text of a document to what requests are compared with.

mod servers;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    document::{Body, Content, Document, Operation, Parameter, PathItem},
    error::{DocumentError, Place},
    limits::Limits,
    media_type::MediaType,
    parameter::{Location, Style, Written},
    path::{Template, Templates},
    reference::followed,
    schema::{Dialect, Schemas},
    shape::{Shape, Types},
    text,
    validate::Schema,
};

/// The members of a path item that are operations.
const METHODS: &[&str] = &["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Header parameters that are ignored (OpenAPI 3.1.1, "Parameter Object", `name`).
const IGNORED_HEADERS: &[&str] = &["accept", "content-type", "authorization"];

impl Document {
    /// Compiles a document, in YAML or JSON, with the usual limits. Paths begin with `base_path`; with the paths of
    /// `servers` where that is `None`.
    ///
    /// # Errors
    /// When the document is malformed, refers to another one, has a schema or a pattern that is not supported, or
    /// exceeds a limit.
    pub fn compile(text: &[u8], base_path: Option<&str>) -> Result<Self, DocumentError> {
        Self::compile_with(text, base_path, Limits::default())
    }

    /// As [`Self::compile`], with other limits.
    ///
    /// # Errors
    /// As there.
    pub fn compile_with(
        text: &[u8],
        base_path: Option<&str>,
        limits: Limits,
    ) -> Result<Self, DocumentError> {
        document(text, base_path, limits)
    }
}

fn document(
    text: &[u8],
    base_path: Option<&str>,
    limits: Limits,
) -> Result<Document, DocumentError> {
    let root = text::parse(text, &limits)?;
    let dialect = dialect(&root)?;
    let mut compiler = Compiler {
        root: &root,
        dialect,
        schemas: Schemas::new(&root, dialect, &limits),
        limits: &limits,
        operations: 0,
        entries: 0,
    };
    let (templates, items) = compiler.paths(base_path)?;
    let mut keys = Vec::new();
    compiler.query_keys(&mut keys)?;
    let converted = compiler.schemas.finish()?;
    let schema = Schema::compile(&converted, &limits)?;
    Ok(Document { limits, templates, items, query_keys: keys, schema })
}

fn dialect(root: &Value) -> Result<Dialect, DocumentError> {
    let whole = |message: &str| DocumentError::new(&Place::ROOT, message);
    if !root.is_object() {
        return Err(whole("an OpenAPI document has to be an object"));
    }
    if root.get("swagger").is_some() {
        return Err(whole("this is Swagger 2.0: convert it to OpenAPI 3.0 or 3.1"));
    }
    let version = root.get("openapi").and_then(Value::as_str).unwrap_or_default();
    let is = |known: &str| version == known || version.starts_with(&format!("{known}."));
    if let Some(schema) = root.get("jsonSchemaDialect").and_then(Value::as_str)
        && !schema.contains("/oas/3.1/dialect/base")
        && !schema.contains("/draft/2020-12/schema")
    {
        let place = Place::In(&Place::ROOT, "jsonSchemaDialect");
        return Err(DocumentError::new(&place, "only the dialect of OpenAPI 3.1 is supported"));
    }
    match (is("3.0"), is("3.1")) {
        (true, _) => Ok(Dialect::OpenApi30),
        (_, true) => Ok(Dialect::OpenApi31),
        _ => Err(DocumentError::new(
            &Place::In(&Place::ROOT, "openapi"),
            "expected the version as a text, such as \"3.0.4\" or \"3.1.1\"",
        )),
    }
}

struct Compiler<'d> {
    root: &'d Value,
    dialect: Dialect,
    schemas: Schemas<'d>,
    limits: &'d Limits,
    operations: usize,
    entries: usize,
}

fn object<'v>(
    value: &'v Value,
    place: &Place<'_>,
) -> Result<&'v Map<String, Value>, DocumentError> {
    value.as_object().ok_or_else(|| DocumentError::new(place, "expected an object"))
}

fn text_of<'v>(value: &'v Value, name: &str, place: &Place<'_>) -> Result<&'v str, DocumentError> {
    let text = value.get(name).and_then(Value::as_str);
    text.ok_or_else(|| DocumentError::new(place, format!("`{name}` is missing, or is no text")))
}

fn flag(value: &Value, name: &str) -> Option<bool> {
    value.get(name).and_then(Value::as_bool)
}

impl<'d> Compiler<'d> {
    fn paths(
        &mut self,
        base_path: Option<&str>,
    ) -> Result<(Templates, Vec<PathItem>), DocumentError> {
        let place = Place::In(&Place::ROOT, "paths");
        let paths = self.root.get("paths");
        let paths =
            paths.ok_or_else(|| DocumentError::new(&Place::ROOT, "there are no `paths`"))?;
        let fixed = match base_path {
            Some(base) => Some(vec![servers::base_path(base, &Place::At("the base path"))?]),
            None => None,
        };
        let whole = servers::of(self.root, &Place::ROOT, self.limits)?;
        let (mut templates, mut items) = (Templates::default(), Vec::new());
        for (path, item) in object(paths, &place)? {
            if path.starts_with("x-") {
                continue;
            }
            let place = Place::In(&place, path);
            let template = Template::parse(path).map_err(|why| DocumentError::new(&place, why))?;
            let (item, _) = followed(self.root, item, &place)?;
            let own = match fixed {
                Some(_) => None,
                None => self.item_servers(item, &place)?,
            };
            let bases = fixed.as_ref().or(own.as_ref()).unwrap_or(&whole);
            for base in bases {
                if !templates.insert(base, &template, items.len()) {
                    return Err(DocumentError::new(
                        &place,
                        "another path matches the same requests",
                    ));
                }
            }
            items.push(self.item(path, &template, item, &place)?);
        }
        templates.order();
        Ok((templates, items))
    }

    /// The base paths of a path item and of its operations, where they have servers of their own.
    fn item_servers(
        &self,
        item: &Value,
        place: &Place<'_>,
    ) -> Result<Option<Vec<Template>>, DocumentError> {
        let mut bases = Vec::new();
        let operations = METHODS.iter().filter_map(|method| item.get(*method));
        for holder in core::iter::once(item).chain(operations) {
            if holder.get("servers").is_some() {
                bases.extend(servers::of(holder, place, self.limits)?);
            }
        }
        bases.dedup_by(|a, b| a == b);
        Ok((!bases.is_empty()).then_some(bases))
    }

    fn item(
        &mut self,
        path: &str,
        template: &Template,
        item: &Value,
        place: &Place<'_>,
    ) -> Result<PathItem, DocumentError> {
        let shared = self.parameters(item, place)?;
        let mut operations = BTreeMap::new();
        for method in METHODS {
            let Some(operation) = item.get(*method) else { continue };
            let place = Place::In(place, method);
            object(operation, &place)?;
            self.operations += 1;
            if self.operations > self.limits.operations_max {
                let max = self.limits.operations_max;
                return Err(DocumentError::new(
                    &place,
                    format!("there are more than {max} operations"),
                ));
            }
            let mut parameters = shared.clone();
            parameters.extend(self.parameters(operation, &place)?);
            let operation = self.operation(parameters, operation, template, &place)?;
            operations.insert(method.to_ascii_uppercase(), operation);
        }
        let names = template.names().into_iter().map(str::to_owned).collect();
        Ok(PathItem { template: path.to_owned(), names, operations })
    }

    fn parameters(
        &mut self,
        holder: &Value,
        place: &Place<'_>,
    ) -> Result<Parameters, DocumentError> {
        let place = Place::In(place, "parameters");
        let mut parameters = Parameters::new();
        let list = match holder.get("parameters") {
            None => return Ok(parameters),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(DocumentError::new(&place, "expected a list of parameters")),
        };
        for (at, parameter) in list.iter().enumerate() {
            let place = Place::Item(&place, at);
            let (parameter, pointer) = followed(self.root, parameter, &place)?;
            let place = pointer.as_deref().map_or(place, Place::At);
            let Some((key, parameter)) = self.parameter(parameter, &place)? else { continue };
            if parameters.insert(key, parameter).is_some() {
                return Err(DocumentError::new(&place, "the parameter is declared twice"));
            }
        }
        Ok(parameters)
    }

    fn parameter(
        &mut self,
        parameter: &Value,
        place: &Place<'_>,
    ) -> Result<Option<(ParameterKey, Parameter)>, DocumentError> {
        let refuse = |message: &str| DocumentError::new(place, message);
        let name = text_of(parameter, "name", place)?;
        let location = Location::parse(text_of(parameter, "in", place)?)
            .ok_or_else(|| refuse("`in` has to be path, query, header or cookie"))?;
        if location == Location::Header
            && IGNORED_HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name))
        {
            return Ok(None);
        }
        let content = parameter.get("content").and_then(Value::as_object);
        let content = content.and_then(|content| content.iter().next());
        let schema = match content {
            Some((_, media)) => media.get("schema"),
            None => parameter.get("schema"),
        };
        let is_json = match content {
            None => false,
            Some((text, _)) => {
                MediaType::parse(text).is_some_and(|media_type| media_type.is_json())
            }
        };
        let style = match parameter.get("style").and_then(Value::as_str) {
            None => location.default_style(),
            Some(text) => Style::parse(text)
                .filter(|style| location.allows(*style))
                .ok_or_else(|| refuse("`style` is none that a parameter of this kind may have"))?,
        };
        let nothing = Value::Object(Map::new());
        let schema = schema.unwrap_or(&nothing);
        let shape = match content {
            Some(_) => Shape::default(),
            None => Shape::of(self.root, schema, self.dialect),
        };
        let is_object = shape.types.has(Types::OBJECT);
        if style == Style::DeepObject && !is_object {
            return Err(refuse("`deepObject` needs a schema of type object"));
        }
        let explode = flag(parameter, "explode").unwrap_or(style == Style::Form);
        let entry = self.entry(schema, &Place::In(place, "schema"))?;
        let compiled = Parameter {
            location,
            is_required: flag(parameter, "required").unwrap_or(false),
            may_be_empty: flag(parameter, "allowEmptyValue").unwrap_or(false),
            written: Written { name: name.to_owned(), style, explode, shape },
            is_json,
            entry,
        };
        let key = match location {
            Location::Header => name.to_ascii_lowercase(),
            Location::Path | Location::Query | Location::Cookie => name.to_owned(),
        };
        Ok(Some(((location, key), compiled)))
    }

    fn entry(&mut self, schema: &Value, place: &Place<'_>) -> Result<String, DocumentError> {
        self.entries += 1;
        if self.entries > self.limits.entries_max {
            let max = self.limits.entries_max;
            let message = format!("there are more than {max} parameters and media types");
            return Err(DocumentError::new(place, message));
        }
        self.schemas.add(schema, place)
    }

    fn operation(
        &mut self,
        parameters: Parameters,
        operation: &Value,
        template: &Template,
        place: &Place<'_>,
    ) -> Result<Operation, DocumentError> {
        if parameters.len() > self.limits.parameters_max {
            let max = self.limits.parameters_max;
            return Err(DocumentError::new(place, format!("there are more than {max} parameters")));
        }
        let declared = |name: &&str| parameters.contains_key(&(Location::Path, (*name).to_owned()));
        let names = template.names();
        if let Some(name) = names.iter().find(|name| !declared(name)) {
            let message = format!("the parameter `{name}` of the path is not declared");
            return Err(DocumentError::new(place, message));
        }
        let mut parameters: Vec<Parameter> = parameters.into_values().collect();
        // Those that take every pair that is left go last.
        parameters.sort_by_key(|parameter| {
            let written = &parameter.written;
            let is_object = written.shape.types.has(Types::OBJECT);
            is_object && written.style == Style::Form && written.explode
        });
        let body = match operation.get("requestBody") {
            None => None,
            Some(body) => Some(self.body(body, &Place::In(place, "requestBody"))?),
        };
        Ok(Operation { parameters, body })
    }

    fn body(&mut self, body: &Value, place: &Place<'_>) -> Result<Body, DocumentError> {
        let (body, pointer) = followed(self.root, body, place)?;
        let place = &pointer.as_deref().map_or(*place, Place::At);
        let content = body.get("content");
        let content = content.ok_or_else(|| DocumentError::new(place, "a body needs `content`"))?;
        let place = &Place::In(place, "content");
        let mut contents = Vec::new();
        for (text, media) in object(content, place)? {
            let place = Place::In(place, text);
            let media_type = MediaType::parse(text)
                .ok_or_else(|| DocumentError::new(&place, "this is no media type"))?;
            let schema = media.get("schema");
            let (mut entry, mut shape) = (None, Shape::default());
            if let Some(schema) = schema {
                entry = Some(self.entry(schema, &Place::In(&place, "schema"))?);
                shape = Shape::of(self.root, schema, self.dialect);
            }
            let encoding = media.get("encoding").and_then(Value::as_object);
            let fields = fields(&shape, encoding, &place)?;
            contents.push(Content { media_type, entry, shape, fields });
        }
        Ok(Body { is_required: flag(body, "required").unwrap_or(false), contents })
    }

    /// The names of API keys in query strings: they are parameters that no operation declares.
    fn query_keys(&self, keys: &mut Vec<String>) -> Result<(), DocumentError> {
        let schemes = self.root.pointer("/components/securitySchemes").and_then(Value::as_object);
        for (name, scheme) in schemes.into_iter().flatten() {
            let place = Place::At("/components/securitySchemes");
            let (scheme, _) = followed(self.root, scheme, &Place::In(&place, name))?;
            let text = |name: &str| scheme.get(name).and_then(Value::as_str);
            if text("type") == Some("apiKey") && text("in") == Some("query") {
                keys.extend(text("name").map(str::to_owned));
            }
        }
        Ok(())
    }
}

/// Where a parameter stands, and its name.
type ParameterKey = (Location, String);

type Parameters = BTreeMap<ParameterKey, Parameter>;

/// The fields of a form, as far as they are declared.
fn fields(
    shape: &Shape,
    encoding: Option<&Map<String, Value>>,
    place: &Place<'_>,
) -> Result<Vec<Written>, DocumentError> {
    let field = |(name, shape): (&String, &Shape)| {
        let encoding = encoding.and_then(|encoding| encoding.get(name));
        let style = encoding.and_then(|encoding| encoding.get("style")).and_then(Value::as_str);
        let style = match style {
            None => Style::Form,
            Some(text) => Style::parse(text)
                .filter(|style| Location::Query.allows(*style))
                .ok_or_else(|| {
                    DocumentError::new(&Place::In(place, "encoding"), "`style` is none of a form")
                })?,
        };
        let explode = encoding.and_then(|encoding| flag(encoding, "explode"));
        let explode = explode.unwrap_or(style == Style::Form);
        Ok(Written { name: name.clone(), style, explode, shape: shape.clone() })
    };
    shape.properties.iter().map(field).collect()
}
