"""recipes.create: stores a new recipe."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import Fault, InvalidInput, Refused, ResultTooLarge
from memrelay.memory.models.recipes.check.definition import (
    ID,
    ID_RULE,
    check_definition,
    encode_definition,
)
from memrelay.memory.models.recipes.compile import compile_recipe, load_recipe
from memrelay.memory.models.recipes.events import event_of
from memrelay.memory.models.recipes.execution.run import run_recipe
from memrelay.memory.models.recipes.execution.variables import RunInput
from memrelay.memory.models.recipes.faults import quoted, refusal
from memrelay.memory.models.recipes.objects import SCOPE
from memrelay.memory.models.recipes.recipe import Recipe
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.models.recipes.specs import StepSpec, step_specs
from memrelay.memory.models.recipes.stored import (
    RecipeId,
    RecipeView,
    add_recipe,
    all_recipes,
    find_recipe,
    replace_recipe,
    view_recipe,
)
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.view import Versions
from memrelay.memory.records.writing import check_version

MAX_ID_CHARACTERS = 64
# Changes that one call reads, at most.
MAX_READ = 1000
# Bytes of an event besides its data.
EVENT_BYTES = 200
MOST = 1000


@dataclass(frozen=True, slots=True)
class CreateRecipe:
    """A recipe to store."""

    definition: dict[str, Any]
    """The definition, as docs/recipes.md describes it."""


@operation("recipes.create", access="write", mutates=True, home="recipes")
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


@operation("recipes.get", access="read", mutates=False, home="recipes")
def get(tx: Transaction, wanted: GetRecipe, context: Context) -> RecipeView:
    """Return a recipe.

    Raises RecordNotFound: when the recipe does not exist.
    """
    return view_recipe(find_recipe(tx, wanted.id).state)


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


@operation("recipes.list", access="read", mutates=False, home="recipes")
def list_recipes(tx: Transaction, wanted: ListRecipes, context: Context) -> RecipeList:
    """List recipes in the order of their ids.

    Raises ResultTooLarge: when they do not fit into an answer.
    """
    found, size = list[RecipeView](), 0
    for stored in all_recipes(tx):
        view = view_recipe(stored.state)
        if not _matches(view.definition, wanted):
            continue
        size += len(stored.state.content.encode())
        if size > context.result_bytes:
            raise ResultTooLarge(
                "the recipes do not fit into one answer; list fewer with `status` or `input_scope`"
            )
        found.append(view)
    return RecipeList(tuple(found))


def _matches(definition: dict[str, Any], wanted: ListRecipes) -> bool:
    status = definition.get("status") or "active"
    return (
        wanted.status in (None, status)
        and (status == "active" or not wanted.active_only)
        and (not wanted.input_scope or wanted.input_scope in definition.get("inputs_scope", ()))
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


@operation("recipes.update", access="write", mutates=True, home="recipes")
def update(tx: Transaction, change: UpdateRecipe, context: Context) -> RecipeView:
    """Replace the whole definition of a recipe.

    Raises RecordNotFound: when the recipe does not exist.
    Raises Refused: when the definition has another id.
    Raises InvalidInput: when the definition has errors.
    Raises VersionConflict: when the recipe has another version.
    """
    find_recipe(tx, change.id)
    given = change.definition.get("id", change.id)
    if given != change.id:
        raise Refused(
            f"the id of a recipe cannot change from {change.id!r} to {str(given)[:64]!r}; "
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


@operation("recipes.delete", access="delete", mutates=True, home="recipes")
def delete(tx: Transaction, target: DeleteRecipe, context: Context) -> None:
    """Delete a recipe. records.restore can undo it.

    Raises RecordNotFound: when the recipe does not exist.
    Raises VersionConflict: when the recipe has another version.
    """
    place = find_recipe(tx, target.id)
    check_version(place.state.record, place.state.extras, target.if_version)
    tx.records.delete(place)


@dataclass(frozen=True, slots=True)
class DuplicateRecipe:
    """The recipe to copy, and the names of the copy."""

    id: RecipeId
    """The id of the recipe to copy."""
    new_id: RecipeId | None = None
    """The id of the copy; by default `ID-copy`, `ID-copy-2` and so on."""
    label: Annotated[str, Field(min_length=1)] | None = None
    """The label of the copy; by default the label with ` (copy)`."""


@operation("recipes.duplicate", access="write", mutates=True, home="recipes")
def duplicate(tx: Transaction, wanted: DuplicateRecipe, context: Context) -> RecipeView:
    """Copy a recipe under a new id.

    Raises RecordNotFound: when the recipe does not exist.
    Raises NameTaken: when another recipe has the new id.
    Raises InvalidInput: when the new id is malformed.
    """
    if wanted.new_id is not None and not ID.fullmatch(wanted.new_id):
        message = f"id must be {ID_RULE}, not {quoted(wanted.new_id)}"
        raise InvalidInput(message, [Fault("/new_id", "bad_id", message)])
    definition = orjson.loads(find_recipe(tx, wanted.id).state.content)
    label = wanted.label or f"{definition['label']} (copy)"
    id_ = wanted.new_id or _free_id(tx, wanted.id)
    return add_recipe(tx, compile_recipe({**definition, "id": id_, "label": label}), context)


def _free_id(tx: Transaction, id_: str) -> str:
    """Return the first free id for a copy. A long id is cut."""
    number, ending = 1, "-copy"
    while True:
        candidate = id_[: MAX_ID_CHARACTERS - len(ending)] + ending
        if tx.table(RecipeTables).definitions.find(SCOPE, candidate) is None:
            return candidate
        number += 1
        ending = f"-copy-{number}"


@dataclass(frozen=True, slots=True)
class ListRecipeChanges:
    """The changes to list."""

    after: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The `next` of the previous call; 0 for the oldest change that is kept."""
    limit: Annotated[int, Field(ge=1, le=MAX_READ)] = 100
    """The maximum number of events."""


@dataclass(frozen=True, slots=True)
class RecipeChange:
    """A change as an event."""

    n: int
    """Its number. A later change has a higher one."""
    event: str
    """Its name, such as `persistentMemory:created`."""
    data: dict[str, Any]
    """The object as it is now, or ids if it no longer exists or is too large."""
    timestamp: Moment


@dataclass(frozen=True, slots=True)
class RecipeChanges:
    """The changes, the oldest first."""

    items: tuple[RecipeChange, ...]
    next: int
    """The `after` of the next call, also if there are no items."""
    last: int
    """The number of the newest change. There is more to read while `next` is lower."""


@operation("recipes.changes", access="read", mutates=False, home="recipes")
def list_recipe_changes(
    tx: Transaction, wanted: ListRecipeChanges, context: Context
) -> RecipeChanges:
    """List changes of recipes and of what they read in order, with the changed objects.

    Raises Refused: when `after` is higher than the last change, as after a restored backup.
    """
    changes, last = tx.feed.after(wanted.after, MAX_READ), tx.feed.last
    if wanted.after > last:
        raise Refused(
            f"the last change is {last}, so the store was replaced after {wanted.after} was read; "
            f"read the objects again and continue with `after`: {last}"
        )
    items, reached, left = list[RecipeChange](), wanted.after, context.result_bytes
    for change in changes:
        found = event_of(tx, change, context.result_bytes // 2)
        if found is not None:
            (name, data), size = found
            left -= size + EVENT_BYTES
            if items and left < 0:
                break
            items.append(RecipeChange(change.n, name, data, format_time(change.at)))
        reached = change.n
        if len(items) == wanted.limit:
            break
    return RecipeChanges(tuple(items), reached, last)


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


@operation("recipes.export", access="read", mutates=False, home="recipes")
def export(tx: Transaction, wanted: ExportRecipe, context: Context) -> ExportedRecipe:
    """Return a recipe as the text of a definition file, without times.

    Raises RecordNotFound: when the recipe does not exist.
    """
    stored = find_recipe(tx, wanted.id).state
    # The order of the keys is that of the stored definition.
    text = orjson.dumps(
        orjson.loads(stored.content), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )
    return ExportedRecipe(wanted.id, text.decode())


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


@operation("recipes.import", access="write", mutates=True, home="recipes")
def import_recipe(tx: Transaction, given: ImportRecipe, context: Context) -> ImportedRecipe:
    """Store a definition as a new recipe, or replace the recipe with its id.

    Raises InvalidInput: when the definition has errors.
    Raises NameTaken: when another recipe has its id, and overwrite is false.
    """
    recipe = compile_recipe(_parse(given.config))
    if (
        given.overwrite
        and tx.table(RecipeTables).definitions.find_to_write(SCOPE, recipe.id) is not None
    ):
        return ImportedRecipe(replace_recipe(tx, recipe), created=False)
    return ImportedRecipe(add_recipe(tx, recipe, context), created=True)


def _parse(config: dict[str, Any] | str) -> Any:
    if not isinstance(config, str):
        return config
    try:
        return orjson.loads(config)
    except orjson.JSONDecodeError as error:
        fault = Fault("", "bad_type", f"the definition is not JSON: {error}")
        raise refusal("the definition", [fault]) from error


@dataclass(frozen=True, slots=True)
class ListSpecs:
    """The step types to describe."""

    user_configurable: bool = False
    """Leave out `custom`, whose handlers the operator provides."""


@dataclass(frozen=True, slots=True)
class SpecList:
    """The step types by name."""

    items: tuple[StepSpec, ...]


@operation("recipes.specs", access="read", mutates=False, home="recipes")
def specs(tx: Transaction, wanted: ListSpecs, context: Context) -> SpecList:
    """Describe the step types and their parameters."""
    found = step_specs()
    if wanted.user_configurable:
        found = tuple(spec for spec in found if spec.category != "custom")
    return SpecList(found)


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


@operation("recipes.store", access="write", mutates=True, home="recipes")
def store_recipes(tx: Transaction, given: StoreRecipes, context: Context) -> StoredRecipes:
    """Store new recipes and replace those with the same ids, all or none.

    Raises InvalidInput: when a definition has errors, or two have the same id; nothing is stored.
    """
    created, updated, unchanged = list[str](), list[str](), list[str]()
    for recipe in _compile_all(given.definitions):
        place = tx.table(RecipeTables).definitions.find_to_write(SCOPE, recipe.id)
        if place is None:
            add_recipe(tx, recipe, context)
            created.append(recipe.id)
        elif place.content == encode_definition(recipe.definition):
            unchanged.append(recipe.id)
        else:
            replace_recipe(tx, recipe)
            updated.append(recipe.id)
    return StoredRecipes(tuple(created), tuple(updated), tuple(unchanged))


def _compile_all(definitions: tuple[dict[str, Any], ...]) -> list[Recipe]:
    """Compile all definitions. Raises InvalidInput with the faults of all of them."""
    recipes, faults, ids = list[Recipe](), list[Fault](), set[str]()
    for at, definition in enumerate(definitions):
        path = f"/definitions/{at}"
        try:
            recipe = compile_recipe(definition)
        except InvalidInput as error:
            faults += [one._replace(path=path + one.path) for one in error.faults]
            continue
        if recipe.id in ids:
            text = f"another definition of the call has the id {recipe.id!r}"
            faults.append(Fault(f"{path}/id", "bad_id", text))
        ids.add(recipe.id)
        recipes.append(recipe)
    if faults:
        raise refusal("the input", faults)
    return recipes


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


@operation("recipes.validate", access="read", mutates=False, home="recipes")
def validate(tx: Transaction, given: ValidateRecipe, context: Context) -> Validation:
    """Check a definition without storing it, and return all errors and warnings."""
    checked = check_definition(given.definition)
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


@operation("recipes.execute", access="search", mutates=False, home="recipes", stepwise=True)
def execute_recipe(
    tx: Transaction, given: ExecuteInput, context: Context
) -> Generator[None, Transaction, dict[str, Any]]:
    """Run a recipe and return its result, with the label of the recipe as `memoryLabel`."""
    if (given.id is None) == (given.definition is None):
        raise Refused("give either the id of a recipe or a definition")
    recipe = load_recipe(tx, given.id) if given.id is not None else compile_recipe(given.definition)
    wanted = RunInput(
        given.intent, given.variables or {}, given.scope_variables or {}, given.thread_id
    )
    result = yield from run_recipe(tx, recipe, wanted, context)
    return result | {"memoryLabel": recipe.label}
