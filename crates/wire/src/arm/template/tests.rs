//! Tests of templates: functions, parameters, loops, order, outputs, secrets and limits, and arbitrary input.

use super::*;
use proptest::prelude::*;

fn target() -> Target {
    Target {
        tenant: "T".to_owned(),
        subscription: "S".to_owned(),
        subscription_name: "Local".to_owned(),
        group: "rg".to_owned(),
        location: "westeurope".to_owned(),
        deployment: "d1".to_owned(),
    }
}

fn frame(template: &Value) -> Frame {
    Frame::new(template.as_object().unwrap(), &Value::Null, target()).expect("the test's parameters are right")
}

fn surroundings() -> Value {
    json!({
        "parameters": {
            "name": {"type": "string", "defaultValue": "web"},
            "both": {"type": "string", "defaultValue": "[concat(parameters('NAME'), '-', resourceGroup().location)]"},
            "sizes": {"type": "array", "defaultValue": [1, 2, 3]},
        },
        "variables": {
            "plain": "text",
            "made": "[concat(variables('plain'), '!')]",
            "deep": {"A": {"b": ["[parameters('name')]", 7]}},
            "copy": [{"name": "hosts", "count": 3, "input": "[concat('h', copyIndex('hosts', 1))]"}],
            "with": {"keep": 1, "copy": [{"name": "list", "count": 2, "input": {"n": "[copyIndex('list')]"}}]},
            "cycle": "[variables('cycle2')]",
            "cycle2": "[variables('cycle')]",
        },
    })
}

/// The value of an expression, or the error message.
fn evaluated(expression: &str) -> String {
    let frame = frame(&surroundings());
    let find = |id: &ResourceId| {
        (id.name().unwrap().is("vm")).then(|| json!({"id": id.to_string(), "properties": {"vmId": "7"}}))
    };
    match Evaluator::new(&frame, Phase::Outputs(&find)).value(&Value::from(expression)) {
        Ok(value) => value.to_string(),
        Err(error) => format!("{}: {}", error.at.unwrap_or_default(), error.message),
    }
}

fn check(expression: &str, expected: &str) {
    assert_eq!(evaluated(expression), expected, "{expression}");
}

#[test]
fn string_functions() {
    check("[concat('a', 'b', 3, true())]", r#""ab3True""#);
    check("[concat(createArray(1), createArray(2, 3))]", "[1,2,3]");
    check("[toLower('ÄbC')]", r#""äbc""#);
    check("[TOUPPER('aB')]", r#""AB""#);
    check("[trim(' a ')]", r#""a""#);
    check("[format('{0}-{1}-{0} {{x}}', 'a', 2)]", r#""a-2-a {x}""#);
    check("[string(createObject('a', 1))]", r#""{\"a\":1}""#);
    check("[string('a')]", r#""a""#);
    check("[split('a,b;c', createArray(',', ';'))]", r#"["a","b","c"]"#);
    check("[split('a,b', ',')[1]]", r#""b""#);
    check("[join(createArray('a', 1), '/')]", r#""a/1""#);
    check("[replace('banana', 'an', 'o')]", r#""booa""#);
    check("[substring('häuser', 1, 2)]", r#""äu""#);
    check("[substring('abc', 1)]", r#""bc""#);
    check("[startsWith('Abc', 'aB')]", "true");
    check("[endsWith('abc', 'x')]", "false");
    check("[length(uniqueString('a', 'b'))]", "13");
    check("[equals(uniqueString('a', 'b'), uniqueString('a', 'b'))]", "true");
    check("[equals(uniqueString('ab', 'c'), uniqueString('a', 'bc'))]", "false");
    check("[uniqueString('forewarn')]", r#""qi35pt4saiw2e""#);
}

#[test]
fn number_and_logical_functions() {
    check("[int('42')]", "42");
    check("[add(1, mul(2, 3))]", "7");
    check("[sub(1, 3)]", "-2");
    check("[div(7, 2)]", "3");
    check("[mod(7, 4)]", "3");
    check("[bool('TRUE')]", "true");
    check("[bool(0)]", "false");
    check("[less(1, 2)]", "true");
    check("[lessOrEquals(2, 1)]", "false");
    check("[greater(1, 2)]", "false");
    check("[greaterOrEquals(2, 2)]", "true");
    check("[equals('a', 'A')]", "false");
    check("[equals(createArray(1), createArray(1))]", "true");
    check("[not(false())]", "true");
    check("[and(true(), true(), false())]", "false");
    check("[or(false(), true())]", "true");
    check("[if(equals(1, 1), 'yes', div(1, 0))]", r#""yes""#);
    check("[and(false(), equals(div(1, 0), 1))]", "false");
    check("[coalesce(null(), 'a', div(1, 0))]", r#""a""#);
    check("[coalesce(null())]", "null");
}

#[test]
fn list_and_object_functions() {
    check("[empty('')]", "true");
    check("[empty(createArray(1))]", "false");
    check("[empty(null())]", "true");
    check("[length('äb')]", "2");
    check("[length(parameters('sizes'))]", "3");
    check("[first('abc')]", r#""a""#);
    check("[last(createArray(1, 2))]", "2");
    check("[first(createArray())]", "null");
    check("[contains(createArray('a'), 'a')]", "true");
    check("[contains(createObject('Key', 1), 'kEY')]", "true");
    check("[contains('abc', 'bc')]", "true");
    check("[createObject('a', 1, 'b', createArray())]", r#"{"a":1,"b":[]}"#);
    check("[createObject('Ab', 5).aB]", "5");
    check("[createObject('x', createArray('p', 'q'))['x'][1]]", r#""q""#);
}

#[test]
fn template_and_deployment_functions() {
    check("[parameters('name')]", r#""web""#);
    check("[parameters('both')]", r#""web-westeurope""#);
    check("[variables('made')]", r#""text!""#);
    check("[variables('deep').a.b[0]]", r#""web""#);
    check("[variables('hosts')]", r#"["h1","h2","h3"]"#);
    check("[variables('with')]", r#"{"keep":1,"list":[{"n":0},{"n":1}]}"#);
    check("[subscription().subscriptionId]", r#""S""#);
    check("[subscription().tenantId]", r#""T""#);
    check("[resourceGroup().id]", r#""/subscriptions/S/resourceGroups/rg""#);
    check("[deployment().name]", r#""d1""#);
    check("[providers('Microsoft.Compute', 'VirtualMachines').resourceType]", r#""virtualMachines""#);
    check("[providers('Microsoft.Compute', 'virtualMachineScaleSets').apiVersions[0]]", r#""2026-04-01""#);
    let vm = "/subscriptions/S/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/vm";
    check("[resourceId('microsoft.compute/virtualmachines', 'vm')]", &format!("{vm:?}"));
    check(
        "[resourceId('S2', 'other', 'Microsoft.Network/loadBalancers/inboundNatRules', 'lb', 'rule')]",
        r#""/subscriptions/S2/resourceGroups/other/providers/Microsoft.Network/loadBalancers/lb/inboundNatRules/rule""#,
    );
    check(
        "[resourceId('other', 'Microsoft.Compute/virtualMachines', 'x')]",
        r#""/subscriptions/S/resourceGroups/other/providers/Microsoft.Compute/virtualMachines/x""#,
    );
    check("[reference(resourceId('Microsoft.Compute/virtualMachines', 'vm'), '2026-04-01').vmId]", r#""7""#);
    check(
        "[reference(resourceId('Microsoft.Compute/virtualMachines', 'vm'), '2026-04-01', 'Full').id]",
        &format!("{vm:?}"),
    );
}

#[test]
fn expression_errors_include_the_byte_offset() {
    check("[listKeys('x')]", "1: The function 'listKeys' is not supported: this server has no keys to list.");
    check("[concat('a', nosuch(1))]", "13: The function 'nosuch' is unknown. Replace the call with its value.");
    check("[if(true(), 1, nosuch())]", "15: The function 'nosuch' is unknown. Replace the call with its value.");
    check("[parameters('x')]", "1: There is no parameter 'x'. Declare it under parameters.");
    check("[variables('x')]", "1: There is no variable 'x'. Define it under variables.");
    check("[variables('copy')]", "1: There is no variable 'copy'. Define it under variables.");
    check("[variables('deep').x]", "18: The value has no member 'x'. Check the name.");
    check("[parameters('sizes')[3]]", "20: The index is out of range for a list of 3.");
    check("[parameters('name')[0]]", "19: The value must be a list.");
    check("[variables('cycle')]", "1: 'variables.cycle' depends on itself. Remove the cycle.");
    check("[copyIndex()]", "1: copyIndex() is not inside a copy loop, or not inside the loop with this name.");
    check("[div(1, 0)]", "1: div() has no 64-bit result: it is too large, or a division by zero.");
    check("[add(9223372036854775807, 1)]", "1: add() has no 64-bit result: it is too large, or a division by zero.");
    check("[add('1', 1)]", "1: add() requires two whole numbers.");
    check("[not('true')]", "1: not() requires true or false.");
    check("[if(1, 2)]", "1: if() requires a condition and two values.");
    check(
        "[substring('abc', 2, 5)]",
        "1: substring() requires a string, a start index and optionally a length, within the string.",
    );
    check("[format('{0')]", "1: format() has an unmatched brace; write a literal brace as {{ or }}.");
    check(
        "[resourceId('Microsoft.Compute/virtualMachines')]",
        "1: The name must have as many parts, separated by slashes, as the type: 1.",
    );
    check(
        "[resourceId('Microsoft.Compute/virtualMachines', 'a/b')]",
        "1: A part of the type or the name is empty or contains a slash.",
    );
    check("[reference('x')]", "1: A resource ID must start with a slash: /subscriptions/…");
    let gone = "/subscriptions/S/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/no";
    check(
        "[reference(resourceId('Microsoft.Compute/virtualMachines', 'no'))]",
        &format!("1: The referenced resource {gone} does not exist."),
    );
    check("[[not an expression]", r#""[not an expression]""#);
}

/// A machine with this name and additional members.
fn vm(name: &str, more: Value) -> Value {
    let mut resource = json!({"type": "Microsoft.Compute/virtualMachines", "apiVersion": "2026-04-01", "name": name});
    resource.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    resource
}

fn parse(template: &Value) -> Result<Plan, TemplateError> {
    Template::parse(template, &Value::Null, &target())
}

/// The last names of the planned resources, or the complete message.
fn names(template: &Value) -> String {
    match parse(template) {
        Ok(plan) => plan.resources.iter().map(|it| it.id.name().unwrap().as_str()).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    }
}

fn check_resources(resources: Value, expected: &str) {
    assert_eq!(names(&json!({ "resources": resources })), expected, "{resources}");
}

#[test]
fn resources_come_after_their_dependencies() {
    check_resources(json!([vm("a", json!({})), vm("b", json!({}))]), "a b");
    let on = |what: &[&str]| json!({ "dependsOn": what });
    let full = "/subscriptions/s/resourcegroups/RG/providers/microsoft.compute/virtualmachines/B";
    check_resources(json!([vm("a", on(&["b"])), vm("b", json!({})), vm("c", json!({}))]), "b a c");
    check_resources(json!([vm("a", on(&["microsoft.compute/VirtualMachines/b"])), vm("b", json!({}))]), "b a");
    check_resources(json!([vm("a", on(&[full])), vm("b", json!({}))]), "b a");
    check_resources(json!([vm("a", on(&["[concat('b', '')]", "b"])), vm("b", json!({}))]), "b a");
    let plan = parse(&json!({"resources": [vm("a", on(&[full])), vm("b", json!({}))]})).unwrap();
    assert_eq!(plan.resources[1].depends_on, [plan.resources[0].id.clone()]);
    check_resources(
        json!([vm("a", on(&["x"]))]),
        "dependsOn refers to 'x', which is not in the template. (In resources[0].dependsOn[0], Microsoft.Compute/virtualMachines 'a'.)",
    );
    let cycle = names(&json!({"resources": [vm("z", on(&["a"])), vm("a", on(&["b"])), vm("b", on(&["a"]))]}));
    assert!(cycle.starts_with("These resources depend on each other in a cycle: /subscriptions/S/"), "{cycle}");
    assert!(cycle.ends_with("(In resources[1], Microsoft.Compute/virtualMachines 'a'.)"), "{cycle}");
    let beside = vm("y", on(&["a", "free"]));
    let cycle =
        names(&json!({"resources": [vm("free", json!({})), beside, vm("a", on(&["free", "b"])), vm("b", on(&["a"]))]}));
    assert!(
        cycle.starts_with("These resources depend on each other in a cycle") && cycle.contains("(In resources[2], "),
        "{cycle}"
    );
    let itself = names(&json!({"resources": [vm("a", on(&["a"]))]}));
    assert!(itself.starts_with("These resources depend on each other in a cycle"), "{itself}");
}

#[test]
fn loops_are_expanded() {
    let copy = |count: Value| json!({"name": "vms", "count": count, "mode": "Serial", "batchSize": 1});
    let looped = |count: Value| vm("[concat('vm', copyIndex())]", json!({ "copy": copy(count) }));
    check_resources(json!([looped(json!(3))]), "vm0 vm1 vm2");
    check_resources(json!([looped(json!("[add(1, 1)]"))]), "vm0 vm1");
    check_resources(json!([looped(json!(0))]), "");
    check_resources(json!([vm("last", json!({"dependsOn": ["vms"]})), looped(json!(2))]), "vm0 vm1 last");
    for wrong in [json!(801), json!(-1), json!("3"), json!(1.5), json!(null)] {
        check_resources(
            json!([looped(wrong)]),
            "The count of a copy loop must be a whole number from 0 to 800. (In resources[0].copy.count, \
             Microsoft.Compute/virtualMachines '[concat('vm', copyIndex())]'.)",
        );
    }
    let body = vm(
        "a",
        json!({"properties": {"copy": [{"name": "disks", "count": 2, "input": {"lun": "[copyIndex('disks', 5)]"}}]}}),
    );
    let plan = parse(&json!({ "resources": [body] })).unwrap();
    assert_eq!(plan.resources[0].body, json!({"properties": {"disks": [{"lun": 5}, {"lun": 6}]}}));
    let mut odd = looped(json!(1));
    odd["copy"]["mode"] = json!("sideways");
    assert!(
        names(&json!({ "resources": [odd] }))
            .starts_with("The value must be 'serial' or 'parallel'. (In resources[0].copy.mode")
    );
}

#[test]
fn a_variable_does_not_see_the_loop_that_uses_it() {
    let resource = vm("[concat('a', variables('v'))]", json!({"copy": {"name": "c", "count": 2}}));
    let error = names(&json!({"variables": {"v": "[copyIndex()]"}, "resources": [resource]}));
    assert!(error.starts_with("copyIndex() is not inside a copy loop"), "{error}");
    assert!(error.contains("(In variables.v, "), "{error}");
}

#[test]
fn conditions_are_applied_and_child_resources_are_expanded() {
    let skipped = vm("no", json!({"condition": "[not(true())]", "properties": {"x": "[div(1, 0)]"}}));
    check_resources(json!([skipped, vm("a", json!({"dependsOn": ["no"]}))]), "a");
    check_resources(json!([vm("a", json!({"condition": false})), vm("a", json!({}))]), "a");
    let network = json!({"type": "Microsoft.Network/virtualNetworks", "apiVersion": "1", "name": "net", "resources": [
        {"type": "subnets", "apiVersion": "1", "name": "[concat('s', '1')]"},
    ]});
    let plan = parse(&json!({ "resources": [network] })).unwrap();
    assert_eq!(
        plan.resources[1].id.to_string(),
        "/subscriptions/S/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/net/subnets/s1"
    );
    assert_eq!(plan.resources[1].kind, "Microsoft.Network/virtualNetworks/subnets");
}

#[test]
fn resource_errors_include_the_place() {
    let at = "Microsoft.Compute/virtualMachines 'a'";
    check_resources(
        json!([vm("b", json!({})), vm("a", json!({"properties": {"list": [1, {"x": "[f(1)]"}]}}))]),
        &format!(
            "The function 'f' is unknown. Replace the call with its value. (In resources[1].properties.list[1].x, {at}, byte 1.)"
        ),
    );
    check_resources(
        json!([{"type": "Microsoft.Storage/storageAccounts", "apiVersion": "1", "name": "s"}]),
        "Resources of the type 'Microsoft.Storage/storageAccounts' are not supported. Nothing was created. \
         (In resources[0].type, Microsoft.Storage/storageAccounts 's'.)",
    );
    check_resources(
        json!([{"type": "Microsoft.Resources/deployments", "apiVersion": "1", "name": "s"}]),
        "Resources of the type 'Microsoft.Resources/deployments' are not supported. Nothing was created. \
         (In resources[0].type, Microsoft.Resources/deployments 's'.)",
    );
    check_resources(
        json!([vm("a", json!({"x": "[reference('y')]"}))]),
        &format!(
            "The function 'reference' is not supported: it only works in outputs, because resources do not exist before the \
             deployment. (In resources[0].x, {at}, byte 1.)"
        ),
    );
    check_resources(json!([{"type": "x"}]), "The member 'name' is missing. Add it. (In resources[0], x '?'.)");
    check_resources(json!([7]), "The value must be an object. (In resources[0], ? '?'.)");
    check_resources(
        json!([vm("a b", json!({}))]),
        "The name 'a b' must not contain spaces, control characters, quotes, slashes or any of < > % & ? #. \
         (In resources[0].name, Microsoft.Compute/virtualMachines 'a b'.)",
    );
    check_resources(
        json!([vm("a/b", json!({}))]),
        "The name must have as many parts, separated by slashes, as the type: 1. (In resources[0].name, \
         Microsoft.Compute/virtualMachines 'a/b'.)",
    );
    let twice = names(&json!({"resources": [vm("a", json!({})), vm("A", json!({}))]}));
    assert!(twice.contains("is defined twice") && twice.contains("resources[1].name"), "{twice}");
    check_resources(
        json!({"a": {}}),
        "Resources with symbolic names (languageVersion 2.0) are not supported. Write the resources as a list. (In resources.)",
    );
    check_resources(
        json!([vm("a", json!({"scope": "/x"}))]),
        &format!(
            "A template can only deploy into the resource group of the deployment. Remove this member. (In resources[0].scope, {at}.)"
        ),
    );
}

fn check_parameter(declaration: Value, given: Value, expected: &str) {
    let template =
        json!({"parameters": {"p": declaration}, "outputs": {"o": {"type": "array", "value": ["[parameters('P')]"]}}});
    let parameters = if given.is_null() { json!({}) } else { json!({"P": {"value": given}}) };
    let shown = match Template::parse(&template, &parameters, &target()) {
        Ok(plan) => plan.outputs(&|_| None).unwrap()["o"]["value"][0].to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(shown, expected, "{declaration} {given}");
}

#[test]
fn parameter_values_and_defaults_must_match_the_declaration() {
    check_parameter(json!({"type": "string"}), json!("x"), r#""x""#);
    check_parameter(json!({"type": "String", "defaultValue": "y"}), json!("x"), r#""x""#);
    check_parameter(json!({"type": "int", "defaultValue": "[add(1, 1)]"}), json!(null), "2");
    check_parameter(json!({"type": "bool"}), json!(false), "false");
    check_parameter(json!({"type": "array", "allowedValues": ["a", "b"]}), json!(["b", "b"]), r#"["b","b"]"#);
    // A value in the request is not an expression.
    check_parameter(json!({"type": "string"}), json!("[concat('a')]"), r#""[concat('a')]""#);
    check_parameter(
        json!({"type": "string"}),
        json!(null),
        "The parameter has neither a value nor a default. Specify a value. (In parameters.p.)",
    );
    check_parameter(
        json!({"type": "int"}),
        json!("3"),
        "The value of the parameter must be a whole number. (In parameters.p.)",
    );
    check_parameter(
        json!({"type": "string", "allowedValues": ["a"]}),
        json!("b"),
        "The value of the parameter must be one of its allowedValues. (In parameters.p.)",
    );
    check_parameter(
        json!({"type": "int", "minValue": 5}),
        json!(4),
        "The value of the parameter is less than 5. (In parameters.p.)",
    );
    check_parameter(
        json!({"type": "int", "maxValue": 5}),
        json!(6),
        "The value of the parameter is more than 5. (In parameters.p.)",
    );
    check_parameter(
        json!({"type": "string", "minLength": 3}),
        json!("äb"),
        "The value of the parameter is shorter than 3. (In parameters.p.)",
    );
    check_parameter(
        json!({"type": "array", "maxLength": 1}),
        json!([1, 2]),
        "The value of the parameter is longer than 1. (In parameters.p.)",
    );
    check_parameter(json!({}), json!(1), "The member 'type' is missing. Add it. (In parameters.p.)");
    check_parameter(
        json!({"type": "float"}),
        json!(1),
        "The value must be a type: string, securestring, int, bool, object, secureObject or array. (In parameters.p.)",
    );
    check_parameter(
        json!({"type": "string", "defaultValue": "[parameters('p')]"}),
        json!(null),
        "'parameters.p.defaultValue' depends on itself. Remove the cycle. (In parameters.p.defaultValue, byte 1.)",
    );
    let undeclared = Template::parse(&json!({}), &json!({"x": {"value": 1}}), &target()).unwrap_err();
    assert_eq!(
        undeclared.to_string(),
        "The template does not declare this parameter. Declare it, or remove the value. (In parameters.x.)"
    );
}

const SECRET: &str = "hunter-two";

fn with_secret(rest: Value) -> Result<Plan, TemplateError> {
    let mut template = json!({
        "parameters": {
            "password": {"type": "securestring"},
            "derived": {"type": "string", "defaultValue": "[concat(parameters('password'), '!')]"},
        },
        "variables": {"hidden": "[parameters('password')]"},
    });
    template.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    Template::parse(&template, &json!({"password": {"value": SECRET}}), &target())
}

#[test]
fn a_secret_reaches_the_body_and_nothing_else() {
    let body = json!({"properties": {"adminPassword": "[parameters('password')]"}});
    let plan = with_secret(json!({"resources": [vm("a", body)]})).unwrap();
    assert_eq!(plan.resources[0].body["properties"]["adminPassword"], SECRET);
    assert_eq!(plan.parameters(), json!({"password": {"type": "SecureString"}, "derived": {"type": "String"}}));
    let output = |kind: &str, value: &str| json!({"outputs": {"o": {"type": kind, "value": value}}});
    for value in ["[parameters('password')]", "[variables('hidden')]", "[parameters('derived')]"] {
        let error = with_secret(output("string", value)).unwrap().outputs(&|_| None).unwrap_err().to_string();
        assert!(error.starts_with("The output would reveal the secure parameter"), "{error}");
    }
    let shown = with_secret(output("SecureString", "[parameters('password')]")).unwrap().outputs(&|_| None);
    assert_eq!(shown.unwrap(), json!({"o": {"type": "SecureString"}}));
}

#[test]
fn no_error_repeats_a_secret() {
    let secret = "[variables('hidden')]";
    let wrong = [
        json!({"resources": [vm(secret, json!({}))]}),
        json!({"resources": [vm("a", json!({"dependsOn": [secret]}))]}),
        json!({"resources": [vm("a", json!({"condition": secret}))]}),
        json!({"resources": [vm("a", json!({"x": "[parameters(parameters('password'))]"}))]}),
        json!({"resources": [vm("a", json!({"x": "[variables(concat('', parameters('derived')))]"}))]}),
        json!({"resources": [vm("a", json!({"x": "[createObject()[parameters('password')]]"}))]}),
        json!({"resources": [vm("a", json!({"x": "[resourceId('a/b', concat(parameters('password'), ' '))]"}))]}),
        json!({"resources": [{"type": secret, "apiVersion": "1", "name": "a"}]}),
    ];
    for template in wrong {
        let error = with_secret(template.clone()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
        assert!(error.to_string().contains("the secure parameter"), "{error}");
    }
    // Other errors in the same resource are still reported.
    let body = json!({"a": "[parameters('password')]", "b": "[nosuch(parameters('password'))]"});
    let error = with_secret(json!({"resources": [vm("a", body)]})).unwrap_err();
    assert!(error.to_string().starts_with("The function 'nosuch' is unknown."), "{error}");
}

#[test]
fn outputs_are_checked_before_deployment_and_evaluated_after_it() {
    let output = |value: &str| json!({"outputs": {"o": {"type": "string", "value": value}}});
    let error = parse(&output("[nosuch(1)]")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The function 'nosuch' is unknown. Replace the call with its value. (In outputs.o.value, byte 1.)"
    );
    let plan = parse(&output("[reference(resourceId('Microsoft.Compute/virtualMachines', 'vm')).vmId]")).unwrap();
    let found = plan.outputs(&|id| Some(json!({"properties": {"vmId": id.name().unwrap().as_str()}})));
    assert_eq!(found.unwrap(), json!({"o": {"type": "String", "value": "vm"}}));
    let missing = plan.outputs(&|_| None).unwrap_err();
    assert!(missing.to_string().starts_with("The referenced resource /subscriptions/S/"), "{missing}");
    let left_out = json!({"outputs": {"o": {"type": "string", "condition": false, "value": "[reference('x')]"}}});
    assert_eq!(parse(&left_out).unwrap().outputs(&|_| None).unwrap(), json!({}));
}

#[test]
fn a_request_needs_a_template_and_the_mode_incremental() {
    let request = |properties: Value| {
        Template::from_request(&json!({ "properties": properties }), &target())
            .map(|plan| plan.resources.len())
            .map_err(|it| it.to_string())
    };
    assert_eq!(request(json!({"mode": "incremental", "template": {"resources": [vm("a", json!({}))]}})), Ok(1));
    assert_eq!(request(json!({"template": {}})), Ok(0));
    let complete = "The mode 'Complete' is not supported, because it would delete resources that are not in the template. Use Incremental. (In properties.mode.)";
    assert_eq!(request(json!({"mode": "Complete", "template": {}})), Err(complete.to_owned()));
    assert_eq!(request(json!({})), Err("The value must be an object. (In template.)".to_owned()));
    let linked = "Links to templates and parameters are not supported. Send the template itself. (In properties.)";
    assert_eq!(request(json!({"templateLink": {"uri": "x"}})), Err(linked.to_owned()));
    assert!(Template::from_request(&json!([]), &target()).is_err());
}

#[test]
fn limits_are_enforced() {
    let message = |template: Value| parse(&template).unwrap_err().message;
    let many = |count: usize| -> Map<String, Value> {
        (0..count).map(|n| (format!("p{n}"), json!({"type": "int", "defaultValue": 1, "value": 1}))).collect()
    };
    assert!(parse(&json!({"parameters": many(256), "variables": many(256), "outputs": many(64)})).is_ok());
    assert_eq!(message(json!({"parameters": many(257)})), "There are more than 256 parameters. Split the template.");
    assert_eq!(message(json!({"variables": many(257)})), "There are more than 256 variables. Split the template.");
    assert_eq!(message(json!({"outputs": many(65)})), "There are more than 64 outputs. Split the template.");
    let looped = |name: &str| vm(name, json!({"copy": {"name": "c", "count": 800}}));
    assert!(parse(&json!({"resources": [looped("[concat('a', copyIndex())]")]})).is_ok());
    let two = json!({"resources": [looped("[concat('a', copyIndex())]"), vm("b", json!({}))]});
    assert_eq!(message(two), "There are more than 800 resources. Split the template.");
    let deep = (0..DEPTH_MAX).fold(json!(1), |value, _| json!([value]));
    assert_eq!(
        message(json!({"resources": [vm("a", json!({"x": deep}))]})),
        "The nesting is deeper than 100 levels. Reduce it."
    );
}

#[test]
fn a_large_template_is_within_the_limits() {
    let values: Vec<Value> = (0..200).map(|n| json!(format!("a value of some length, number {n}"))).collect();
    let resource = vm("[concat('a', copyIndex())]", json!({"properties": values, "copy": {"name": "c", "count": 800}}));
    assert_eq!(parse(&json!({ "resources": [resource] })).map(|plan| plan.resources.len()), Ok(800));
}

#[test]
fn small_templates_with_unlimited_growth_are_stopped() {
    let message = |variables: Value| {
        let resources = json!([vm("a", json!({"x": "[variables('v')]"}))]);
        parse(&json!({"variables": variables, "resources": resources})).unwrap_err().message
    };
    let of_four = |n: usize| format!("[concat({})]", vec![format!("variables('v{n}')"); 4].join(", "));
    let growing = (0..12).map(|n| (format!("v{}", n + 1), json!(of_four(n))));
    let ends = [("v".to_owned(), json!(of_four(12))), ("v0".to_owned(), json!("x"))];
    assert_eq!(message(growing.chain(ends).collect()), "The template takes too long to evaluate. Make it smaller.");
    let chain = (0..200).map(|n| (format!("v{n}"), json!(format!("[variables('v{}')]", n + 1))));
    let ends = [("v".to_owned(), json!("[variables('v0')]")), ("v200".to_owned(), json!("x"))];
    assert_eq!(message(chain.chain(ends).collect()), "The nesting is deeper than 100 levels. Reduce it.");
    let long = "x".repeat(20_000);
    let grown = json!({"v": "[replace(variables('l'), 'x', variables('l'))]", "l": long});
    assert_eq!(message(grown), "replace() cannot return more than 1048576 bytes.");
    let joined = json!({"v": "[join(split(variables('l'), 'x'), variables('l'))]", "l": long});
    assert_eq!(message(joined), "join() cannot return more than 1048576 bytes.");
    let formatted = json!({"v": format!("[format('{}', variables('l'))]", "{0}".repeat(1000)), "l": long});
    assert_eq!(message(formatted), "format() cannot return more than 1048576 bytes.");
    let nested = json!({"v": {"copy": [{"name": "a", "count": 800, "input":
        {"copy": [{"name": "b", "count": 800, "input": {"copy": [{"name": "c", "count": 800, "input": 1}]}}]}}]}});
    assert_eq!(message(nested), "The template takes too long to evaluate. Make it smaller.");
}

/// JSON that contains words used in templates.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any_member(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        r"\[(concat\(|parameters\('p'\)|variables\('v'\)|copyIndex\(|resourceId\(|reference\(|'a'|'a/b'|,|\)|\[|\]|\.x|1){0,8}\]",
        Just("Microsoft.Compute/virtualMachines".to_owned()),
        Just("securestring".to_owned()),
        Just("int".to_owned()),
    ]
}

fn any_member() -> impl Strategy<Value = String> {
    let words = [
        "parameters",
        "variables",
        "resources",
        "outputs",
        "type",
        "name",
        "apiVersion",
        "properties",
        "copy",
        "count",
        "input",
        "dependsOn",
        "condition",
        "value",
        "defaultValue",
        "p",
        "v",
        "mode",
    ];
    prop_oneof![8 => prop::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

proptest! {
    #[test]
    fn no_template_makes_the_evaluator_panic(template in any_json(), parameters in any_json()) {
        if let Ok(plan) = Template::parse(&template, &parameters, &target()) {
            let _ = plan.outputs(&|_| Some(json!({"properties": {"x": 1}})));
        }
        let _ = Template::from_request(&json!({"properties": {"template": template, "parameters": parameters}}), &target());
        let _ = Template::from_request(&template, &target());
    }

    #[test]
    fn nor_do_resources_that_look_right(members in any_json(), parameter in any_json(), variable in any_json()) {
        let mut resource = vm("a", json!({}));
        if let Value::Object(members) = members {
            resource.as_object_mut().unwrap().extend(members);
        }
        let template = json!({
            "parameters": {"p": {"type": "string", "defaultValue": parameter}},
            "variables": {"v": variable},
            "resources": [resource],
        });
        if let Err(error) = parse(&template) {
            prop_assert!(!error.place.is_empty());
            prop_assert!(error.message.ends_with('.') || error.message.ends_with('…'), "{}", error.message);
        }
    }

    #[test]
    fn nor_does_any_expression(text in any_text()) {
        let _ = evaluated(&text);
    }
}
