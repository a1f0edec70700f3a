#include "tessera/data/chat/chat_template.hpp"

#include <filesystem>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/json_depth.hpp"
#include "tessera/data/chat/template_render.hpp"

namespace tessera::data {
namespace {

const std::map<std::string, const char*>& built_in() {
  static const std::map<std::string, const char*> list = {
      {"chatml",
       "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{{ '' "
       "}}"
       "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
      {"llama3",
       "<|begin_of_text|>{% for message in messages %}<|start_header_id|>{{ message.role "
       "}}<|end_header_id|>\n\n"
       "{{ message.content | trim }}<|eot_id|>{% endfor %}"
       "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"},
      {"mistral",
       "<s>{% for message in messages %}{% if message.role == 'user' %}[INST] {{ message.content | trim }} "
       "[/INST]"
       "{% elif message.role == 'assistant' %} {{ message.content | trim }}</s>"
       "{% else %}{{ raise_exception('only user and assistant speak, not ' ~ message.role) }}"
       "{% endif %}{% endfor %}"}};
  return list;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view text, std::string name)
    : name_(std::move(name)), statements_(parse_template(text, name_)) {}

std::string ChatTemplate::render(const Json& messages, bool add_generation_prompt,
                                 const Json& variables) const {
  Json all = variables;
  all["messages"] = messages;
  all["add_generation_prompt"] = add_generation_prompt;
  return rendered(statements_, all, name_);
}

std::vector<Segment> ChatTemplate::segments(const Json& messages, const Json& variables) const {
  if (!messages.is_array() || messages.empty()) throw UserError("messages is no list, or an empty one");
  const std::string whole = render(messages, false, variables);
  std::vector<Segment> out;
  std::size_t at = 0;
  const auto add = [&](std::size_t end, bool counts) {
    if (end > at) out.push_back({whole.substr(at, end - at), counts});
    at = std::max(at, end);
  };
  Json so_far = Json::array();
  for (const Json& message : messages) {
    if (!message.is_object() || !message.contains("role")) throw UserError("a message has no role");
    const bool is_answer = message["role"] == "assistant";
    const std::string before = is_answer ? render(so_far, true, variables) : "";
    so_far.push_back(message);
    if (!is_answer) continue;
    const std::string after = render(so_far, false, variables);
    if (!whole.starts_with(after) || !after.starts_with(before) || before.size() < at)
      throw UserError(
          cat("chat template '", name_, "' writes message ", so_far.size(),
              " otherwise when more messages follow, so that what the assistant said can't be told "
              "apart. Use a template that only appends, such as chatml."));
    add(before.size(), false);
    add(after.size(), true);
  }
  add(whole.size(), false);
  return out;
}

std::string chat_template_text(const std::string& name) { return built_in().at(name); }

namespace {
Json parsed_config(const std::string& text) {
  return json_depth(text) > 64 ? Json() : Json::parse(text, nullptr, false);
}
}  // namespace

ChatTemplate open_chat_template(const std::string& path) {
  if (const auto found = built_in().find(path); found != built_in().end()) return {found->second, path};
  if (!std::filesystem::is_regular_file(path))
    throw UserError(cat("chat template '", path, "' is no file, nor one of chatml, llama3 and mistral"));
  const std::string text = file_text(path);
  if (!path.ends_with(".json")) return {text, path};
  const Json config = parsed_config(text);
  if (!config.is_object() || !config.contains("chat_template") || !config["chat_template"].is_string())
    throw UserError(cat("'", path, "' has no chat_template that is one text"));
  return {config["chat_template"].get<std::string>(), path};
}

Json chat_variables(const std::string& path) {
  Json out = Json::object();
  if (!path.ends_with(".json")) return out;
  const Json config = parsed_config(file_text(path));
  for (const char* name : {"bos_token", "eos_token"}) {
    Json token = config.is_object() ? config.value(name, Json()) : Json();
    if (token.is_object()) token = token.value("content", Json());
    if (token.is_string()) out[name] = token;
  }
  return out;
}

}  // namespace tessera::data
