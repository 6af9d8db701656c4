"""`output_template`: tokens and filters within limits; content is never used as a template."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.blocks.templates import (
    FILTERS,
    MAX_FILTERS,
    MAX_OUTPUT,
    MAX_VALUE,
    TOKENS,
    BadTemplate,
    OutputTemplate,
)
from memrelay.memory.errors import Refused, ResultTooLarge
from memrelay.memory.records.record import Record
from tests.blocks.calls import NOW

RECORD = Record("g-1", "s", "fact", "tea", "keeper", '["a","b"]', NOW, NOW + 1, score=1.25)


def render(source: str, *records: Record) -> str:
    return OutputTemplate(source).render(records or (RECORD,))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{content}}", "tea"),
        ("{{ content }}\n\n", "tea\n\n"),
        ("{{kind}}/{{scope}}/{{guid}}/{{source}}", "fact/s/g-1/keeper"),
        ("{{content}} {{content}}", "tea tea"),
        ("{{tags}}", "a, b"),
        ("{{created_at}} {{updated_at}} {{score}}", f"{NOW} {NOW + 1} 1.25"),
        ("{{content|upper}} {{score|round(1)}}", "TEA 1.2"),
        ("{{content|tojson}}", '"tea"'),
        ("- {{content}}\r\n", "- tea\n"),
        ("no token", "no token"),
        ("{content} ${content} }}", "{content} ${content} }}"),
        ("{{'{{content}}'}}", "{{content}}"),
        ("{# a remark #}{{content}}", "tea"),
        ("🫖 {{content}}", "🫖 tea"),
    ],
)
def test_tokens_are_replaced(source: str, text: str) -> None:
    assert render(source) == text


def test_records_are_joined_without_a_separator() -> None:
    assert render("{{content}}", RECORD, RECORD._replace(content="milk")) == "teamilk"
    assert render("{{content}}\n", RECORD, RECORD._replace(content="milk")) == "tea\nmilk\n"


def test_without_records_the_text_is_empty() -> None:
    assert OutputTemplate("a {{content}}").render([]) == ""


def test_tags_are_comma_separated_and_no_tags_are_empty() -> None:
    assert render("[{{tags}}]", RECORD._replace(tags="[]")) == "[]"
    assert render("[{{tags}}]", RECORD._replace(tags='["a"]')) == "[a]"
    assert render("{{tags}}", RECORD._replace(tags='["<b>","日本"]')) == "<b>, 日本"


@pytest.mark.parametrize(
    "content",
    [
        "{{guid}}",
        "{% for x in y %}",
        "{{ 7 * 7 }}",
        "<b> & \"'",
        "{{content}}" * 1000,
        "{#",
        "}}",
        "\x00",
    ],
)
def test_content_is_never_used_as_a_template_and_is_not_escaped(content: str) -> None:
    assert render("{{content}}", RECORD._replace(content=content)) == content


@pytest.mark.parametrize(
    "source",
    [
        "{{text}}",
        "{{Content}}",
        "{{row}}",
        "{{self}}",
        "{{loop}}",
        "{{range}}",
        "{{config}}",
        "{{__class__}}",
        "{{content|default(secret)}}",
        "{{content|truncate(length=secret)}}",
    ],
)
def test_an_unknown_token_is_refused_with_a_list_of_tokens(source: str) -> None:
    with pytest.raises(BadTemplate, match="unknown token") as refused:
        OutputTemplate(source)

    assert all(token in str(refused.value) for token in TOKENS)


@pytest.mark.parametrize(
    "source",
    [
        "{{content|nofilter}}",
        "{{content|attr('__class__')}}",
        "{{content|map('upper')}}",
        "{{content|format(1)}}",
        "{{content|replace('a', 'b' )}}",
        "{{content|center(10000)}}",
        "{{content|indent(10000)}}",
        "{{content|safe}}",
    ],
)
def test_an_unknown_filter_is_refused_with_a_list_of_filters(source: str) -> None:
    with pytest.raises(BadTemplate, match="unknown filter") as refused:
        OutputTemplate(source)

    assert all(name in str(refused.value) for name in FILTERS)


@pytest.mark.parametrize(
    "source",
    [
        "{% for x in content %}{{content}}{% endfor %}",
        "{% if content %}x{% endif %}",
        "{% set content = 1 %}",
        "{% include 'x' %}",
        "{% import 'x' as content %}",
        "{% extends 'x' %}",
        "{% macro content() %}{% endmacro %}",
        "{% block content %}{% endblock %}",
        "{% filter upper %}{% endfilter %}",
        "{{content.__class__}}",
        "{{content['x']}}",
        "{{content[0]}}",
        "{{content()}}",
        "{{content ~ content}}",
        "{{content * 100000000}}",
        "{{9 ** 9 ** 9}}",
        "{{ -score }}",
        "{{[content]}}",
        "{{{'a': content}}}",
        "{{(content, kind)}}",
        "{{content is defined}}",
        "{{content == kind}}",
        "{{content if kind}}",
        "{{not content}}",
        "{{content in kind}}",
    ],
)
def test_anything_but_tokens_and_filters_is_refused(source: str) -> None:
    with pytest.raises(BadTemplate, match="not allowed"):
        OutputTemplate(source)


@pytest.mark.parametrize(
    "source",
    ["{{", "{{}}", "{{content", "{{content}", "{%", "{{content|}}", "{{content upper}}", "{# x"],
)
def test_a_syntax_error_is_refused_with_its_line(source: str) -> None:
    with pytest.raises(BadTemplate, match=r"line 2"):
        OutputTemplate("\n" + source)


@pytest.mark.parametrize(
    "source",
    ["{{created_at|round(100000000, 'ceil')}}", "{{content|truncate(10001)}}", "{{1e300}}"],
)
def test_a_large_number_is_refused(source: str) -> None:
    with pytest.raises(BadTemplate, match="is too large; at most"):
        OutputTemplate(source)


@pytest.mark.parametrize("count", [MAX_FILTERS + 1, 300, 2000])
def test_too_many_nested_filters_are_refused(count: int) -> None:
    assert render("{{content" + "|upper" * MAX_FILTERS + "}}") == "TEA"
    with pytest.raises(BadTemplate, match="nested filters"):
        OutputTemplate("{{content" + "|upper" * count + "}}")


@pytest.mark.parametrize(
    "source",
    [
        "{{content|round}}",
        "{{content|truncate(1)}}",
        "{{created_at|truncate(5)}}",
        "{{content|truncate('a')}}",
        "{{content|upper(1)}}",
        "{{content|trim(5)}}",
        "{{score|round(400, 'ceil')}}",
        "{{score|round('x')}}",
        "{{score|round(1, 'sideways')}}",
        "{{content|truncate(*tags)}}",
        "{{content|truncate(**tags)}}",
    ],
)
def test_a_filter_that_fails_returns_an_error(source: str) -> None:
    template = OutputTemplate(source)

    with pytest.raises(Refused, match="output_template cannot be rendered"):
        template.render([RECORD])


ARGUMENTS = st.sampled_from(
    [
        "",
        "1",
        "0",
        "10000",
        "1.5",
        "'x'",
        "tags",
        "score",
        "content",
        "created_at",
        "none",
        "true",
        "'ceil'",
    ]
)


@given(
    st.sampled_from(sorted(TOKENS)),
    st.lists(
        st.tuples(st.sampled_from(sorted(FILTERS)), st.lists(ARGUMENTS.filter(bool), max_size=3)),
        max_size=3,
    ),
)
def test_an_accepted_template_renders_or_refuses(
    token: str, filters: list[tuple[str, list[str]]]
) -> None:
    source = (
        "{{"
        + token
        + "".join(f"|{name}({', '.join(arguments)})" for name, arguments in filters)
        + "}}"
    )

    try:
        text = render(source)
    except Refused:
        return

    assert len(text) <= 20_000


def test_rendering_stops_when_the_text_is_too_long() -> None:
    seen = []

    def records() -> object:
        while True:
            seen.append(1)
            yield RECORD._replace(content="x" * 1000)

    with pytest.raises(ResultTooLarge, match="`limit`"):
        OutputTemplate("{{content}}").render(records())

    assert len(seen) == MAX_OUTPUT // 1000 + 1


@given(
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="{}#%\r"), max_size=30),
    st.text(max_size=30),
)
def test_text_around_tokens_and_content_are_unchanged(around: str, content: str) -> None:
    assert (
        render(around + "{{content}}" + around, RECORD._replace(content=content))
        == around + content + around
    )


def test_the_time_limit_is_not_available_as_a_token() -> None:
    with pytest.raises(BadTemplate, match="unknown token"):
        OutputTemplate("{{_until}}")


def test_the_length_limit_counts_bytes() -> None:
    tea = RECORD._replace(content="\N{TEACUP WITHOUT HANDLE}" * (MAX_OUTPUT // 4))

    assert render("{{content}}", tea) == tea.content
    with pytest.raises(ResultTooLarge, match="bytes"):
        render("{{content}}x", tea)


def test_a_long_text_may_be_truncated_but_not_filtered() -> None:
    long = RECORD._replace(content="tea " * MAX_VALUE)

    assert render("{{content|default('x')|truncate(6)}}", long) == "tea..."
    with pytest.raises(ResultTooLarge, match="truncate it first"):
        render("{{content|upper|truncate(6)}}", long)
    assert render("{{content|truncate(6)|upper}}", long) == "TEA..."


def test_a_text_that_is_not_utf8_returns_an_error() -> None:
    with pytest.raises(Refused, match="cannot be rendered"):
        render(r"{{'\ud800'}}")


@pytest.mark.parametrize(
    "source", ["{{score|round(created_at, 'ceil')}}", "{{content|trim(content)}}"]
)
def test_a_large_argument_of_a_filter_is_refused(source: str) -> None:
    with pytest.raises(ResultTooLarge, match="an argument of the filter"):
        render(source, RECORD._replace(content="a" * 20_000))
