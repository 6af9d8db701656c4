"""Recipes: declared retrieval pipelines, checked and compiled from their definitions."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import Fault, InvalidInput, Refused, ResultTooLarge
from memrelay.memory.models.recipes import RECIPE_KIND
from memrelay.memory.models.recipes.definition.check import (
    CONTRIBUTION_KEYS,
    ID,
    ID_RULE,
    check_definition,
    encode_definition,
    with_defaults,
)
from memrelay.memory.models.recipes.definition.recipe import SCOPES, Contribution, Recipe
from memrelay.memory.models.recipes.definition.specs import StepSpec, step_specs
from memrelay.memory.models.recipes.execution.run import RunInput, run_recipe
from memrelay.memory.models.recipes.faults import MAX_FAULTS, quoted, refusal
from memrelay.memory.models.recipes.keyed_kind import SCOPE, KeyedKind, view_edits
from memrelay.memory.models.recipes.table import RecipeTables
from memrelay.memory.operations import Context, Receipt, operation
from memrelay.memory.records.view import Versions

MAX_ID_CHARACTERS = 64
MOST = 1000
# Recipes that are read together.
PAGE = 200
RecipeId = Annotated[str, Field(min_length=1, max_length=64)]
# Compiled recipes per store. A full cache is emptied.
CACHED = 64


@dataclass(frozen=True, slots=True)
class RecipeView:
    """A stored recipe."""

    id: str
    """The id."""
    label: str
    """The label."""
    definition: dict[str, Any]
    """The definition, with the default of each field that it does not set."""
    version: str
    """Changes with every write; a write can require it."""
    created_at: Moment
    updated_at: Moment


def view_recipe(state: State) -> RecipeView:
    definition = orjson.loads(state.content)
    ident, label = definition["id"], definition["label"]
    return RecipeView(ident, label, with_defaults(definition), **view_edits(state))


RECIPES = KeyedKind(RECIPE_KIND, "recipe", "recipes", view_recipe)


@dataclass(frozen=True, slots=True)
class CreateRecipe:
    """A recipe to store."""

    definition: dict[str, Any]
    """The definition, as docs/recipes.md describes it."""


@operation("recipes.create", access="write", mutates=True, store="recipes")
def create(tx: Transaction, new: CreateRecipe, context: Context) -> RecipeView:
    """Check a definition and store it as a new recipe.

    Raises InvalidInput: when the definition has errors.
    Raises NameTaken: when another recipe has its id.
    """
    return add_recipe(tx, compile_recipe(new.definition), context)


@dataclass(frozen=True, slots=True)
class GetRecipe:
    """The recipe to read."""

    id: RecipeId
    """The id of the recipe."""


RECIPES.declare_get(GetRecipe, "Return a recipe.")


@dataclass(frozen=True, slots=True)
class ListRecipes:
    """The recipes to list."""

    status: Literal["active", "deprecated"] | None = None
    """Only recipes with this status."""
    active_only: bool = False
    """Only active recipes."""
    input_scope: str = ""
    """Only recipes with this scope in inputs_scope."""


@dataclass(frozen=True, slots=True)
class RecipeList:
    """Recipes in the order of their ids."""

    items: tuple[RecipeView, ...]


@operation("recipes.list", access="read", mutates=False, store="recipes")
def list_recipes(tx: Transaction, query: ListRecipes, context: Context) -> RecipeList:
    """List recipes in the order of their ids.

    Raises ResultTooLarge: when they do not fit into an answer.
    """
    views, size = list[RecipeView](), 0
    for stored in all_recipes(tx):
        view = view_recipe(stored.state)
        if not _matches(view.definition, query):
            continue
        size += len(stored.state.content.encode())
        if size > context.result_bytes:
            raise ResultTooLarge(
                "the recipes do not fit into one answer; list fewer with `status` or `input_scope`"
            )
        views.append(view)
    return RecipeList(tuple(views))


def _matches(definition: dict[str, Any], query: ListRecipes) -> bool:
    status = definition.get("status") or "active"
    return (
        query.status in (None, status)
        and (status == "active" or not query.active_only)
        and (not query.input_scope or query.input_scope in definition.get("inputs_scope", ()))
    )


@dataclass(frozen=True, slots=True)
class UpdateRecipe:
    """The new definition of a recipe."""

    id: RecipeId
    """The id of the recipe. It never changes."""
    definition: dict[str, Any]
    """The whole definition. Its `id` may be absent."""
    if_version: Versions = ()
    """Replace only if the recipe has one of these versions."""


@operation("recipes.update", access="write", mutates=True, store="recipes")
def update(tx: Transaction, change: UpdateRecipe, context: Context) -> RecipeView:
    """Replace the whole definition of a recipe.

    Raises RecordNotFound: when the recipe does not exist.
    Raises Refused: when the definition has another id.
    Raises InvalidInput: when the definition has errors.
    Raises VersionConflict: when the recipe has another version.
    """
    RECIPES.find(tx, change.id)
    id_ = change.definition.get("id", change.id)
    if id_ != change.id:
        raise Refused(
            f"the id of a recipe cannot change from {change.id!r} to {str(id_)[:64]!r}; "
            "use recipes.duplicate and recipes.delete"
        )
    recipe = compile_recipe({**change.definition, "id": change.id})
    return replace_recipe(tx, recipe, change.if_version)


@dataclass(frozen=True, slots=True)
class DeleteRecipe:
    """The recipe to delete."""

    id: RecipeId
    """The id of the recipe."""
    if_version: Versions = ()
    """Delete only if the recipe has one of these versions."""


RECIPES.declare_delete(DeleteRecipe, "Delete a recipe. records.restore can undo it.")


@dataclass(frozen=True, slots=True)
class DuplicateRecipe:
    """The recipe to copy, and the names of the copy."""

    id: RecipeId
    """The id of the recipe to copy."""
    new_id: RecipeId | None = None
    """The id of the copy; by default `ID-copy`, `ID-copy-2` and so on."""
    label: Annotated[str, Field(min_length=1)] | None = None
    """The label of the copy; by default the label with ` (copy)`."""


@operation("recipes.duplicate", access="write", mutates=True, store="recipes")
def duplicate(tx: Transaction, query: DuplicateRecipe, context: Context) -> RecipeView:
    """Copy a recipe under a new id.

    Raises RecordNotFound: when the recipe does not exist.
    Raises NameTaken: when another recipe has the new id.
    Raises InvalidInput: when the new id is malformed.
    """
    if query.new_id is not None and not ID.fullmatch(query.new_id):
        message = f"id must be {ID_RULE}, not {quoted(query.new_id)}"
        raise InvalidInput(message, [Fault("/new_id", "bad_id", message)])
    definition = orjson.loads(RECIPES.find(tx, query.id).state.content)
    label = query.label or f"{definition['label']} (copy)"
    id_ = query.new_id or _free_id(tx, query.id)
    return add_recipe(tx, compile_recipe({**definition, "id": id_, "label": label}), context)


def _free_id(tx: Transaction, id_: str) -> str:
    """Return the first free id for a copy. A long id is cut."""
    number, ending = 1, "-copy"
    while True:
        candidate = id_[: MAX_ID_CHARACTERS - len(ending)] + ending
        if RECIPES.table(tx).find(SCOPE, candidate) is None:
            return candidate
        number += 1
        ending = f"-copy-{number}"


@dataclass(frozen=True, slots=True)
class ExportRecipe:
    """The recipe to export."""

    id: RecipeId
    """The id of the recipe."""


@dataclass(frozen=True, slots=True)
class ExportedRecipe:
    """An exported recipe."""

    id: str
    """The id."""
    text: str
    """The definition as canonical, indented JSON. Equal recipes have equal texts."""


@operation("recipes.export", access="read", mutates=False, store="recipes")
def export(tx: Transaction, query: ExportRecipe, context: Context) -> ExportedRecipe:
    """Return a recipe as the text of a definition file, without times.

    Raises RecordNotFound: when the recipe does not exist.
    """
    stored = RECIPES.find(tx, query.id).state
    # The order of the keys is that of the stored definition.
    text = orjson.dumps(
        orjson.loads(stored.content), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )
    return ExportedRecipe(query.id, text.decode())


@dataclass(frozen=True, slots=True)
class ImportRecipe:
    """A definition to import."""

    config: dict[str, Any] | str
    """The definition as an object or as JSON text."""
    overwrite: bool = False
    """Whether to replace a recipe with the same id."""


@dataclass(frozen=True, slots=True)
class ImportedRecipe:
    """The result of an import."""

    recipe: RecipeView
    """The stored recipe."""
    created: bool
    """Whether the recipe is new."""


@operation("recipes.import", access="write", mutates=True, store="recipes")
def import_recipe(tx: Transaction, new: ImportRecipe, context: Context) -> ImportedRecipe:
    """Store a definition as a new recipe, or replace the recipe with its id.

    Raises InvalidInput: when the definition has errors.
    Raises NameTaken: when another recipe has its id, and overwrite is false.
    """
    definition: Any = new.config
    if isinstance(definition, str):
        try:
            definition = orjson.loads(definition)
        except orjson.JSONDecodeError as error:
            fault = Fault("", "bad_type", f"the definition is not JSON: {error}")
            raise refusal("the definition", [fault]) from error
    recipe = compile_recipe(definition)
    if new.overwrite and RECIPES.table(tx).find_to_write(SCOPE, recipe.id) is not None:
        return ImportedRecipe(replace_recipe(tx, recipe), created=False)
    return ImportedRecipe(add_recipe(tx, recipe, context), created=True)


@dataclass(frozen=True, slots=True)
class ListSpecs:
    """The step types to describe."""

    user_configurable: bool = False
    """Leave out `custom`, whose handlers the operator provides."""


@dataclass(frozen=True, slots=True)
class SpecList:
    """The step types by name."""

    items: tuple[StepSpec, ...]


@operation("recipes.specs", access="read", mutates=False, store="recipes")
def specs(tx: Transaction, query: ListSpecs, context: Context) -> SpecList:
    """Describe the step types and their parameters."""
    step_types = step_specs()
    if query.user_configurable:
        step_types = tuple(spec for spec in step_types if spec.category != "custom")
    return SpecList(step_types)


@dataclass(frozen=True, slots=True)
class StoreRecipes:
    """The recipes to store."""

    definitions: Annotated[tuple[dict[str, Any], ...], Field(min_length=1, max_length=MOST)]
    """Definitions with different ids. They replace recipes with these ids."""


@dataclass(frozen=True, slots=True)
class StoredRecipes:
    """The result."""

    created: tuple[str, ...]
    """Ids of the new recipes."""
    updated: tuple[str, ...]
    """Ids of the replaced recipes."""
    unchanged: tuple[str, ...]
    """Ids of the recipes that were the same before."""


@operation("recipes.store", access="write", mutates=True, store="recipes")
def store_recipes(tx: Transaction, new: StoreRecipes, context: Context) -> StoredRecipes:
    """Store new recipes and replace those with the same ids, all or none.

    Raises InvalidInput: when a definition has errors, or two have the same id; nothing is stored.
    """
    recipes, faults = dict[str, Recipe](), list[Fault]()
    for at, definition in enumerate(new.definitions):
        path = f"/definitions/{at}"
        try:
            recipe = compile_recipe(definition)
        except InvalidInput as error:
            faults += [one._replace(path=path + one.path) for one in error.faults]
            if len(faults) > MAX_FAULTS:
                break
            continue
        if recipe.id in recipes:
            text = f"another definition of the call has the id {recipe.id!r}"
            faults.append(Fault(f"{path}/id", "bad_id", text))
        recipes[recipe.id] = recipe
    if faults:
        raise refusal("the input", faults[:MAX_FAULTS])
    created, updated, unchanged = list[str](), list[str](), list[str]()
    for recipe in recipes.values():
        stored = RECIPES.table(tx).find_to_write(SCOPE, recipe.id)
        if stored is None:
            add_recipe(tx, recipe, context)
            created.append(recipe.id)
        elif with_defaults(orjson.loads(stored.content)) == with_defaults(recipe.definition):
            unchanged.append(recipe.id)
        else:
            replace_recipe(tx, recipe)
            updated.append(recipe.id)
    return StoredRecipes(tuple(created), tuple(updated), tuple(unchanged))


@dataclass(frozen=True, slots=True)
class ValidateRecipe:
    """A definition to check."""

    definition: Any
    """The definition."""


@dataclass(frozen=True, slots=True)
class DefinitionFault:
    """An error or a warning."""

    path: str
    """The JSON pointer into the definition."""
    code: str
    """The kind, as docs/recipes.md lists it."""
    message: str
    """The problem and the fix."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of a check."""

    valid: bool
    """Whether there are no errors."""
    errors: tuple[DefinitionFault, ...]
    """All errors."""
    warnings: tuple[DefinitionFault, ...]
    """All warnings. They do not keep a recipe from being stored."""


@operation("recipes.validate", access="read", mutates=False, store="recipes")
def validate(tx: Transaction, query: ValidateRecipe, context: Context) -> Validation:
    """Check a definition without storing it, and return all errors and warnings."""
    checked = check_definition(query.definition)
    return Validation(not checked.errors, _shown(checked.errors), _shown(checked.warnings))


def _shown(faults: tuple[Fault, ...]) -> tuple[DefinitionFault, ...]:
    return tuple(DefinitionFault(*fault) for fault in faults)


@dataclass(frozen=True, slots=True)
class ExecuteInput:
    """Input of `recipes.execute`: exactly one of `id` and `definition`."""

    id: str | None = None
    """Id of a stored recipe."""
    definition: dict[str, Any] | None = None
    """A definition to run without storing it."""
    intent: str | dict[str, Any] | None = None
    """`{query, keywords, action, context}`, all optional. A text is the query."""
    variables: dict[str, Any] | None = None
    """Values of the recipe's variables, by name."""
    scope_variables: dict[str, dict[str, Any]] | None = None
    """Values by scope, then by name: `{"task": {"task_id": "T1"}}`."""
    thread_id: str | None = None
    """Sets the variable `thread_id`."""
    receipt: Receipt = False
    """Whether to leave a receipt (docs/receipts.md), or the id of the answer that will use it."""


@operation("recipes.execute", access="search", mutates=False, store="recipes", stepwise=True)
def execute_recipe(
    tx: Transaction, query: ExecuteInput, context: Context
) -> Generator[None, Transaction, dict[str, Any]]:
    """Run a recipe and return its result, with the label of the recipe as `memoryLabel`."""
    if (query.id is None) == (query.definition is None):
        raise Refused("give either the id of a recipe or a definition")
    recipe = load_recipe(tx, query.id) if query.id is not None else compile_recipe(query.definition)
    run_input = RunInput(
        query.intent, query.variables or {}, query.scope_variables or {}, query.thread_id
    )
    result = yield from run_recipe(tx, recipe, run_input, context)
    return result | {"memoryLabel": recipe.label}


def all_recipes(tx: Transaction) -> Iterator[StoredRecord]:
    """Yield all recipes in the order of their ids."""
    after = ""
    while page := list(RECIPES.table(tx).page(SCOPE, after, PAGE)):
        yield from page
        after = page[-1].state.key or ""


def add_recipe(tx: Transaction, recipe: Recipe, context: Context) -> RecipeView:
    """Store a new recipe. Raises NameTaken: another recipe has its id."""
    content = encode_definition(recipe.definition)
    return RECIPES.add(tx, recipe.id, content, context)


def replace_recipe(tx: Transaction, recipe: Recipe, if_version: tuple[str, ...] = ()) -> RecipeView:
    """Replace the definition of a stored recipe; an equal one is a new version, too.

    Raises RecordNotFound: there is no recipe with its id.
    Raises VersionConflict: it has none of these versions.
    """
    stored = RECIPES.find_version(tx, recipe.id, if_version)
    after = stored.state._replace(content=encode_definition(recipe.definition))
    return view_recipe(RECIPES.table(tx).change(stored, after))


def compile_recipe(definition: Any) -> Recipe:
    """Compile a definition. Raises InvalidInput with all errors of it."""
    checked = check_definition(definition)
    if checked.recipe is None:
        raise refusal("the definition", checked.errors)
    return checked.recipe


def load_recipe(tx: Transaction, id_: str) -> Recipe:
    """Return the stored recipe with that id, compiled.

    Raises RecordNotFound: there is none. Raises InvalidInput: it does not pass the check of this
    release.
    """
    state, compiled = RECIPES.find(tx, id_).state, tx.table(RecipeTables).compiled
    version = (state.guid, state.number, state.updated_at)
    recipe: Recipe | None = compiled.get(version)
    if recipe is None:
        recipe = compile_recipe(orjson.loads(state.content))
        if len(compiled) >= CACHED:
            compiled.clear()
        compiled[version] = recipe
    return recipe


@dataclass(frozen=True, slots=True)
class Brief:
    """A summary of a recipe. `required` are the additional variables without default."""

    id: str
    label: str
    is_active: bool
    scopes: tuple[str, ...]
    variables: tuple[str, ...]
    required: tuple[str, ...]
    contribution: Contribution

    def missing(self, values: Mapping[str, Any]) -> list[str]:
        """Return the required variables that have no value."""
        return [name for name in self.required if values.get(name) is None]


def find_brief(tx: Transaction, ident: str) -> Brief | None:
    stored = tx.table(RecipeTables).definitions.find(SCOPE, ident)
    return None if stored is None else _summarize(stored)


def active_briefs(tx: Transaction) -> Iterator[Brief]:
    """Yield the summaries of all active recipes in the order of their ids."""
    return (brief for brief in map(_summarize, all_recipes(tx)) if brief.is_active)


def _summarize(stored: StoredRecord) -> Brief:
    definition = orjson.loads(stored.content)
    variables = definition.get("additional_variables", [])
    contribution = definition.get("contribution", {})
    known_keys = [key for key in CONTRIBUTION_KEYS if key in contribution]
    return Brief(
        definition["id"],
        definition["label"],
        definition.get("status", "active") == "active",
        tuple(one for one in definition.get("inputs_scope", []) if one in SCOPES),
        tuple(one["name"] for one in variables),
        tuple(
            one["name"]
            for one in variables
            if one.get("required") is True and one.get("default") is None
        ),
        Contribution(**{key: contribution[key] for key in known_keys}),
    )
