"""/context-assembly and /context-rule-engine: contexts from several recipes, and their rules."""

from dataclasses import asdict

from aiohttp import web

from memrelay.memory.models.recipes.assembly import AssembledContext, RequiredVariables
from memrelay.memory.models.recipes.definition.recipe import Contribution
from memrelay.web.models.codebolt import shapes
from memrelay.web.models.codebolt.crud import Crud
from memrelay.web.models.codebolt.errors import CODEBOLT_API
from memrelay.web.models.codebolt.events import (
    ASSEMBLY_COMPLETE,
    ASSEMBLY_ERROR,
    ASSEMBLY_STARTED,
    PIPELINE_COMPLETE,
    RULES_EVALUATED,
    publish_live,
)
from memrelay.web.models.request_fields import Body, Json, same
from memrelay.web.models.routes import Call, Route, serve_all
from memrelay.web.models.shapes import array_of
from memrelay.web.server.error_dialects import describe_faults
from memrelay.web.server.errors import Problem

routes = web.RouteTableDef()
ASSEMBLY, ENGINES = "/context-assembly", "/context-rule-engine"
ENGINE = ENGINES + "/{id}"
INPUTS = same("scope_variables", "additional_variables", "input")
REQUEST = Body(
    fields=INPUTS | same("explicit_memory", "rule_engine_ids", "constraints"),
    example="{scope_variables, additional_variables?, input?: {text}, explicit_memory?, "
    "rule_engine_ids?, constraints?: {max_tokens?, max_sources?, timeout_ms?}}",
)
RULE_INPUTS = Body(
    fields=INPUTS | same("rule_engine_ids"),
    example="{scope_variables, additional_variables?, input?, rule_engine_ids?}",
)
ENGINE_FIELDS = same("name", "description", "enabled", "rules")
RULES = Crud("rules", "rule engine", shapes.RuleEngine)


def _publish_start(request: web.Request, uid: str, values: Json) -> None:
    """Publish the beginning of an assembly."""
    publish_live(request, uid, ASSEMBLY_STARTED, {"ids": values.get("explicit_memory") or []})


def _publish_result(call: Call) -> None:
    """Publish what the rules added, each recipe's run, and the figures of the context."""
    trace = call.output["trace"]
    added = dict.fromkeys(
        ident for rule in trace["rules_applied"] for ident in rule["add_memories"]
    )
    events = [(RULES_EVALUATED, {"ids": list(added)})]
    events += [(PIPELINE_COMPLETE, one) for one in trace["memory_calls"]]
    for event, data in [*events, (ASSEMBLY_COMPLETE, call.output["meta"])]:
        publish_live(call.request, call.uid, event, data)


def _publish_failure(request: web.Request, uid: str, problem: Problem) -> None:
    """Publish why an assembly failed."""
    faults = problem.members.get("faults", ())
    message = describe_faults({"detail": problem.detail, "faults": faults})
    publish_live(request, uid, ASSEMBLY_ERROR, {"message": message})


def _to_memory_type(view: Json) -> Json:
    """Return the parts of a recipe that assemblies use, with their defaults."""
    definition = view["definition"]
    return {
        "id": view["id"],
        "label": view["label"],
        "description": definition.get("description", ""),
        "inputs_scope": definition.get("inputs_scope", []),
        "additional_variables": definition.get("additional_variables", []),
        "contribution": asdict(Contribution()) | definition.get("contribution", {}),
    }


serve_all(
    CODEBOLT_API,
    routes,
    (
        Route(
            "POST",
            f"{ASSEMBLY}/assemble",
            "assembly.assemble",
            "Assemble the context of a prompt.",
            shape=AssembledContext,
            headers={"x-thread-id": ("thread_id", "The value of the variable thread_id.")},
            body=REQUEST,
            before=_publish_start,
            after=_publish_result,
            failed=_publish_failure,
        ),
        Route(
            "POST",
            f"{ASSEMBLY}/validate",
            "assembly.validate",
            "Validate a request to assemble a context.",
            shape=shapes.Validation,
            body=REQUEST,
        ),
        Route(
            "GET",
            f"{ASSEMBLY}/memory-types",
            "recipes.list",
            "List the active recipes.",
            convert=lambda call: [_to_memory_type(one) for one in call.output["items"]],
            shape=array_of(shapes.MemoryType),
            fixed={"active_only": True},
        ),
        Route(
            "POST",
            f"{ASSEMBLY}/evaluate-rules",
            "rules.evaluate",
            "Return the recipes that rules add.",
            shape=shapes.RulesEvaluated,
            body=RULE_INPUTS,
        ),
        Route(
            "POST",
            f"{ASSEMBLY}/required-variables",
            "assembly.required_variables",
            "List the variables that recipes read.",
            shape=RequiredVariables,
            body=Body(fields=same("memory_ids"), example="{memory_ids}"),
        ),
        RULES.list_all(ENGINES),
        RULES.create(
            ENGINES,
            Body(
                fields=same("id") | ENGINE_FIELDS,
                example="{id?, name, description?, enabled?, rules?}",
            ),
        ),
        Route(
            "GET",
            f"{ENGINES}/variables",
            "rules.variables",
            "List the variables that rules may read.",
            shape=array_of(shapes.RuleVariable),
        ),
        Route(
            "POST",
            f"{ENGINES}/evaluate",
            "rules.evaluate",
            "Return the recipes that the rules of all or some engines add.",
            shape=shapes.RulesEvaluated,
            body=RULE_INPUTS,
        ),
        RULES.read(ENGINE),
        RULES.update(ENGINE, Body(fields=ENGINE_FIELDS, example="The fields to change.")),
        RULES.delete(ENGINE),
        Route(
            "POST",
            f"{ENGINE}/evaluate",
            "rules.evaluate",
            "Return the recipes that the rules of one engine add.",
            shape=shapes.RulesEvaluated,
            path_fields={"id": "rule_engine_ids/0"},
            body=Body(fields=INPUTS, example="{scope_variables, additional_variables?, input?}"),
        ),
    ),
)
