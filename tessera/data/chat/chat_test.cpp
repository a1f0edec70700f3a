// What templates write, which parts of it count, and what is refused. Costs about 0.1 s. What Jinja itself
// writes is compared in chat_process_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/base/testing/test_folder.hpp"
#include "tessera/data/chat/chat_template.hpp"

namespace tessera::data {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const Json kTalk =
    Json::parse(R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi "},
  {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Bye"},
  {"role": "assistant", "content": "Bye."}])");

std::string render(const std::string& text, const Json& messages = kTalk) {
  return ChatTemplate(text, "test", {{"bos_token", "<s>"}}).render(messages, false);
}

TEST(ChatTemplate, OnlyWhatTheAssistantSaysCounts) {
  using Segments = std::vector<Segment>;
  EXPECT_EQ(open_chat_template("chatml").segments(kTalk),
            (Segments{{"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
                       "<|im_start|>assistant\n",
                       false},
                      {"Hello.<|im_end|>\n", true},
                      {"<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n", false},
                      {"Bye.<|im_end|>\n", true}}));
  EXPECT_EQ(open_chat_template("llama3").segments(kTalk).at(1), (Segment{"Hello.<|eot_id|>", true}));
  const Json two =
      Json::parse(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])");
  EXPECT_EQ(open_chat_template("mistral").segments(two),
            (Segments{{"<s>[INST] a [/INST]", false}, {" b</s>", true}}));
  EXPECT_THAT([] { open_chat_template("mistral").segments(kTalk); },
              ThrowsMessage<UserError>(HasSubstr("only user and assistant speak, not system")));
}

TEST(ChatTemplate, ATemplateThatRewritesWhatCameBeforeIsRefused) {
  const ChatTemplate last_only(
      "{% for m in messages %}{% if loop.last %}{{ m.content }}{% endif %}{% endfor %}", "x");
  EXPECT_THAT([&] { last_only.segments(kTalk); }, ThrowsMessage<UserError>(HasSubstr("only appends")));
}

TEST(ChatTemplate, KeepsToTheRulesOfWhiteSpace) {
  EXPECT_EQ(render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(render("a \n {%- if true -%} \n b {%- endif %} c"), "ab c");
  EXPECT_EQ(render("a {{- ' b ' -}} c"), "a b c");
  EXPECT_EQ(render("a {# not\nwritten #}\nb"), "a b");
  EXPECT_EQ(render("  {%+ if true %}b{% endif %}"), "  b");
}

TEST(ChatTemplate, ComputesExpressions) {
  for (const auto& [expression, expected] : std::vector<std::pair<std::string, std::string>>{
           {"1 + 2 * 3", "7"},
           {"7 // 2 ~ 7 % 2 ~ -7 // 2 ~ -7 % 2", "31-41"},
           {"'a' ~ 1 ~ none ~ true", "a1NoneTrue"},
           {"'a' + 'b' if 1 < 2 and not 2 < 1 else 'c'", "ab"},
           {"messages | length", "5"},
           {"messages[-1].content", "Bye."},
           {"messages[1:][0]['role']", "user"},
           {"messages[::-1][0].content", "Bye."},
           {"messages[1].content | trim | upper", "HI"},
           {"messages[1].content.strip().startswith('H')", "True"},
           {"'x' in 'axb' and 'role' in messages[0] and 'y' not in ['z']", "True"},
           {"missing is defined or messages is iterable and bos_token is not none", "True"},
           {"missing | default('d')", "d"},
           {"missing", ""},
           {"messages[0] | tojson", R"({"role": "system", "content": "Be brief."})"},
           {"[1, {'a': [true, none]}] | tojson(indent=1)",
            "[\n 1,\n {\n  \"a\": [\n   true,\n   null\n  ]\n }\n]"},
           {"'a,b'.split(',') | join('+')", "a+b"},
           {"messages[0].get('name', 'none') ~ messages[0].items() | length", "none2"}})
    EXPECT_EQ(render("{{ " + expression + " }}"), expected) << expression;
}

TEST(ChatTemplate, LoopsSetAndRemember) {
  EXPECT_EQ(
      render("{% for m in messages if m.role == 'user' %}{{ loop.index0 }}{{ loop.last }} {% endfor %}"),
      "0False 1True ");
  EXPECT_EQ(render("{% set x = 1 %}{% for m in messages %}{% set x = 2 %}{% endfor %}{{ x }}"), "1");
  EXPECT_EQ(render("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor "
                   "%}{{ ns.n }}"),
            "5");
  EXPECT_EQ(render("{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}"),
            "role=system;content=Be brief.;");
  EXPECT_EQ(
      render("{% for i in range(3) %}{% if i == 0 %}a{% elif i == 1 %}b{% else %}c{% endif %}{% endfor %}"),
      "abc");
  EXPECT_EQ(render("{% generation %}x{% endgeneration %}"), "x");
}

TEST(ChatTemplate, RefusesWhatItDoesNotKnowByNameAndLine) {
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"a\n{% macro x() %}{% endmacro %}", "line 2: the tag 'macro' is not supported"},
           {"{{ messages | map(attribute='role') }}", "the filter 'map' is not supported"},
           {"{{ strftime_now('%d') }}", "the function 'strftime_now' is not supported"},
           {"{{ bos_token is divisibleby }}", "the test 'divisibleby' is not supported"},
           {"{{ bos_token.encode() }}", "the method 'encode' of a string is not supported"},
           {"{% set x %}a{% endset %}", "'set' without '='"},
           {"{% for m in messages %}", "'endfor' is missing"},
           {"{% endif %}", "belongs to no tag before it"},
           {"{{ 1 + }}", "an expression is missing"},
           {"{{ 'a }}", "a string has no end"},
           {"{{ 1", "a tag has no end"},
           {"{{ missing.content }}", "something undefined has no \"content\""},
           {"{{ messages }}", "tojson"},
           {"{{ raise_exception('no tools') }}", "refuses the conversation: no tools"},
           {"{{ " + std::string(5000, '(') + " }}", "nested too deep"},
           {"{{ " + std::string(5000, '-') + "1 }}", "too many parts"}}) {
    const auto refused = [&each = text] { render(each); };
    EXPECT_THAT(refused, ThrowsMessage<UserError>(HasSubstr(part))) << text.substr(0, 80);
  }
}

TEST(ChatTemplate, EndsWhateverATemplateComputes) {
  const std::string doubling = "{% set ns = namespace(x='a', l=[]) %}{% for i in range(1000) %}";
  EXPECT_THROW(render(doubling + "{% set ns.x = ns.x + ns.x %}{% endfor %}"), UserError);
  EXPECT_THROW(render(doubling + "{% set ns.l = [ns.l, ns.l] %}{% endfor %}"), UserError);
  EXPECT_THROW(render(doubling + "{% set ns.l = [ns.l] %}{% endfor %}"), UserError);
  EXPECT_THROW(render("{% for i in range(2000) %}{% for j in range(2000) %}{% endfor %}{% endfor %}"),
               UserError);
}

TEST(ChatTemplate, OpensTheFilesThatTransformersWritesWithTheirSpecialTokens) {
  const TestFolder folder;
  const std::string text = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{{ eos_token }}";
  const Json talk = Json::parse(R"([{"role": "user", "content": "a"}])");
  const auto written = [&](const std::string& path) { return open_chat_template(path).render(talk, false); };

  const std::string jinja = folder.write("chat_template.jinja", text);
  EXPECT_EQ(written(jinja), "a");
  const std::string config =
      folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})");
  for (const std::string& path : {jinja, config, folder.path("")})
    EXPECT_EQ(written(path), "<s>a</s>") << path;

  folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "chat_template": "old"})");
  EXPECT_EQ(written(config), "<s>a");  // chat_template.jinja takes precedence
  std::filesystem::remove(jinja);
  EXPECT_EQ(written(config), "old");
  folder.write("tokenizer_config.json", R"({"eos_token": "$", "chat_template":
      [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "{{ eos_token }}"}]})");
  EXPECT_EQ(written(folder.path("")), "$");
  for (const char* broken :
       {"{}", "", "[", R"({"chat_template": 7})", R"({"chat_template": [1, {"name": "x"}]})"}) {
    folder.write("tokenizer_config.json", broken);
    EXPECT_THAT([&] { open_chat_template(config); },
                ThrowsMessage<UserError>(HasSubstr("no chat_template.jinja next to it")))
        << broken;
  }
}

}  // namespace
}  // namespace tessera::data
