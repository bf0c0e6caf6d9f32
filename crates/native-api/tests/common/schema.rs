//! A validator for the part of JSON Schema that the document uses. What it does not know is a failure, so that no rule is
//! passed over in silence.

use serde_json::Value;

/// Everything of `value` that its schema does not allow, by path.
pub fn violations(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(document, schema, value, "$", &mut found);
    found
}

fn check(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let rules = match schema {
        Value::Bool(true) => return,
        Value::Object(rules) => rules,
        other => return found.push(format!("{at}: {other} allows nothing")),
    };
    for (rule, of) in rules {
        match rule.as_str() {
            "description" | "title" | "default" | "format" | "$comment" => {}
            "$ref" => {
                let pointer = of.as_str().and_then(|r| r.strip_prefix('#')).expect("a local reference");
                let target = document.pointer(pointer).unwrap_or_else(|| panic!("{pointer} leads nowhere"));
                check(document, target, value, at, found);
            }
            "type" => {
                let fits = match of {
                    Value::Array(types) => types.iter().any(|t| is_type(t, value)),
                    one => is_type(one, value),
                };
                if !fits {
                    found.push(format!("{at}: {value} is no {of}"));
                }
            }
            "enum" => {
                // An option lists its words without null.
                let listed = of.as_array().expect("a list").contains(value);
                if !listed {
                    found.push(format!("{at}: {value} is none of {of}"));
                }
            }
            "const" => {
                if value != of {
                    found.push(format!("{at}: {value} is not {of}"));
                }
            }
            "minimum" | "maximum" => {
                let (limit, number) = (of.as_f64().expect("a number"), value.as_f64());
                let fits = number.is_none_or(|n| if rule == "minimum" { n >= limit } else { n <= limit });
                if !fits {
                    found.push(format!("{at}: {value} is beyond the {rule} {of}"));
                }
            }
            "required" => {
                for name in of.as_array().expect("a list").iter().filter_map(Value::as_str) {
                    if value.as_object().is_some_and(|o| !o.contains_key(name)) {
                        found.push(format!("{at}: {name} is missing"));
                    }
                }
            }
            "items" => {
                for (n, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(document, of, item, &format!("{at}[{n}]"), found);
                }
            }
            "properties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = of.get(name) {
                        check(document, schema, inner, &format!("{at}.{name}"), found);
                    }
                }
            }
            "additionalProperties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    if rules.get("properties").and_then(|p| p.get(name)).is_none() {
                        check(document, of, inner, &format!("{at}.{name}"), found);
                    }
                }
            }
            "oneOf" | "anyOf" => {
                let fits = |schema: &&Value| violations(document, schema, value).is_empty();
                let count = of.as_array().expect("a list").iter().filter(fits).count();
                if count == 0 || (rule == "oneOf" && count > 1) {
                    found.push(format!("{at}: {value} fits {count} of {rule}"));
                }
            }
            "allOf" => {
                for schema in of.as_array().expect("a list") {
                    check(document, schema, value, at, found);
                }
            }
            other => panic!("{at}: the validator does not know the rule {other}"),
        }
    }
}

fn is_type(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type of JSON"),
    }
}

/// True when every object in the value has only properties that its schema names: nothing is answered that is not documented.
pub fn undocumented(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(document, schema, value, "$", &mut found);
    found
}

fn walk(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let mut schema = schema;
    while let Some(reference) = schema["$ref"].as_str() {
        schema = document.pointer(&reference[1..]).expect("a reference leads somewhere");
    }
    for options in ["oneOf", "anyOf"] {
        if let Some(list) = schema[options].as_array() {
            let fits = list.iter().find(|s| violations(document, s, value).is_empty());
            if let Some(fits) = fits {
                walk(document, fits, value, at, found);
            }
            return;
        }
    }
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let path = format!("{at}.{name}");
                let known = schema["properties"].get(name);
                match known
                    .or_else(|| schema.get("additionalProperties").filter(|s| **s != Value::Bool(false)))
                {
                    Some(schema) => walk(document, schema, inner, &path, found),
                    None => found.push(path),
                }
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                walk(document, &schema["items"], item, &format!("{at}[{n}]"), found);
            }
        }
        _ => {}
    }
}
