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

ChatTemplate::ChatTemplate(std::string_view text, std::string name, Json variables)
    : name_(std::move(name)), variables_(std::move(variables)), statements_(parse_template(text, name_)) {}

std::string ChatTemplate::render(const Json& messages, bool add_generation_prompt) const {
  Json all = variables_;
  all["messages"] = messages;
  all["add_generation_prompt"] = add_generation_prompt;
  return rendered(statements_, all, name_);
}

std::vector<Segment> ChatTemplate::segments(const Json& messages) const {
  if (!messages.is_array() || messages.empty()) throw UserError("messages is no list, or an empty one");
  const std::string whole = render(messages, false);
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
    const std::string before = is_answer ? render(so_far, true) : "";
    so_far.push_back(message);
    if (!is_answer) continue;
    const std::string after = render(so_far, false);
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

namespace fs = std::filesystem;

// A null value for a file that is absent or not JSON.
Json config_at(const fs::path& path) {
  if (!fs::is_regular_file(path)) return {};
  const std::string text = file_text(path);
  return json_depth(text) > 64 ? Json() : Json::parse(text, nullptr, false);
}

// The special tokens of a tokenizer_config.json, which are texts or objects with a content.
Json special_tokens(const Json& config) {
  Json out = Json::object();
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    Json token = config.is_object() ? config.value(name, Json()) : Json();
    if (token.is_object()) token = token.value("content", Json());
    if (token.is_string()) out[name] = token;
  }
  return out;
}

// The chat_template of a tokenizer_config.json: one text, or the `default` of a list of named ones.
std::string template_in(const Json& config, const fs::path& path) {
  Json found = config.is_object() ? config.value("chat_template", Json()) : Json();
  if (found.is_array())
    for (const Json& each : Json(found))
      if (each.is_object() && each.value("name", Json()) == "default") found = each.value("template", Json());
  if (!found.is_string())
    throw UserError(
        cat("'", path.string(), "' has no chat_template, and there is no chat_template.jinja next to it"));
  return found.get<std::string>();
}

}  // namespace

ChatTemplate open_chat_template(const std::string& path) {
  if (const auto found = built_in().find(path); found != built_in().end()) return {found->second, path};
  const bool is_folder = fs::is_directory(path);
  if (!is_folder && !fs::is_regular_file(path))
    throw UserError(
        cat("chat template '", path, "' is not a file, a folder, or one of chatml, llama3 and mistral"));
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  const bool is_config = is_folder || path.ends_with(".json");
  const fs::path config_path = is_config && !is_folder ? fs::path(path) : folder / "tokenizer_config.json";
  const Json config = config_at(config_path);
  const fs::path jinja = is_config ? folder / "chat_template.jinja" : fs::path(path);
  const bool has_jinja = fs::is_regular_file(jinja);
  return {has_jinja ? file_text(jinja) : template_in(config, config_path), has_jinja ? jinja : config_path,
          special_tokens(config)};
}

}  // namespace tessera::data
