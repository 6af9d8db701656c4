"""`output_template`: tokens and a few filters. A template cannot loop, grow or look into anything;
data is never one."""

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
def test_tokens_are_filled_in(source: str, text: str) -> None:
    assert render(source) == text


def test_records_follow_each_other_with_nothing_in_between() -> None:
    assert render("{{content}}", RECORD, RECORD._replace(content="milk")) == "teamilk"
    assert render("{{content}}\n", RECORD, RECORD._replace(content="milk")) == "tea\nmilk\n"


def test_no_record_is_no_text() -> None:
    assert OutputTemplate("a {{content}}").render([]) == ""


def test_tags_render_comma_separated_and_none_as_nothing() -> None:
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
def test_data_is_never_a_template_and_nothing_is_escaped(content: str) -> None:
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
def test_an_unknown_token_is_refused_and_the_known_ones_named(source: str) -> None:
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
def test_an_unknown_filter_is_refused_and_the_known_ones_named(source: str) -> None:
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
def test_what_is_no_template_is_refused_with_the_line(source: str) -> None:
    with pytest.raises(BadTemplate, match=r"line 2"):
        OutputTemplate("\n" + source)


@pytest.mark.parametrize(
    "source",
    ["{{created_at|round(100000000, 'ceil')}}", "{{content|truncate(10001)}}", "{{1e300}}"],
)
def test_a_number_that_could_keep_us_busy_is_refused(source: str) -> None:
    with pytest.raises(BadTemplate, match="too large a number"):
        OutputTemplate(source)


@pytest.mark.parametrize("count", [MAX_FILTERS + 1, 300, 2000])
def test_a_tower_of_filters_is_refused_before_it_is_climbed(count: int) -> None:
    assert render("{{content" + "|upper" * MAX_FILTERS + "}}") == "TEA"
    with pytest.raises(BadTemplate, match="filters one on another"):
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
def test_a_filter_that_cannot_work_is_told_in_band(source: str) -> None:
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
def test_whatever_is_accepted_renders_or_is_refused(
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


def test_a_text_that_grows_too_long_is_stopped_on_the_way() -> None:
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
def test_text_around_tokens_and_content_come_out_as_they_are(around: str, content: str) -> None:
    assert (
        render(around + "{{content}}" + around, RECORD._replace(content=content))
        == around + content + around
    )


def test_what_ends_a_rendering_is_no_token() -> None:
    with pytest.raises(BadTemplate, match="unknown token"):
        OutputTemplate("{{_until}}")


def test_the_longest_text_is_counted_in_bytes() -> None:
    tea = RECORD._replace(content="\N{TEACUP WITHOUT HANDLE}" * (MAX_OUTPUT // 4))

    assert render("{{content}}", tea) == tea.content
    with pytest.raises(ResultTooLarge, match="bytes"):
        render("{{content}}x", tea)


def test_a_long_text_may_be_cut_but_not_worked_on() -> None:
    long = RECORD._replace(content="tea " * MAX_VALUE)

    assert render("{{content|default('x')|truncate(6)}}", long) == "tea..."
    with pytest.raises(ResultTooLarge, match="truncate it first"):
        render("{{content|upper|truncate(6)}}", long)
    assert render("{{content|truncate(6)|upper}}", long) == "TEA..."


def test_a_text_that_no_utf8_has_is_told_in_band() -> None:
    with pytest.raises(Refused, match="cannot be rendered"):
        render(r"{{'\ud800'}}")


@pytest.mark.parametrize(
    "source", ["{{score|round(created_at, 'ceil')}}", "{{content|trim(content)}}"]
)
def test_an_argument_that_could_keep_us_busy_is_refused(source: str) -> None:
    with pytest.raises(ResultTooLarge, match="an argument of the filter"):
        render(source, RECORD._replace(content="a" * 20_000))
