// Chat templates: how the messages of a conversation become one text. A part of Jinja is understood, with
// which the templates of common models are written; docs/data.md lists it, and all else is refused by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/chat/template_tree.hpp"

namespace tessera::data {

// A part of a document's text.
struct Segment {
  std::string text;
  bool counts = true;  // in the loss
  bool operator==(const Segment&) const = default;
};

class ChatTemplate {
 public:
  // `variables` is an object of what a template may use in addition to the messages, such as bos_token.
  // Throws UserError naming the line and what is not understood.
  ChatTemplate(std::string_view text, std::string name, Json variables = Json::object());

  const std::string& name() const { return name_; }
  const Json& variables() const { return variables_; }
  // The text of a list of messages. Throws UserError when the template does, and when it computes without
  // an end.
  std::string render(const Json& messages, bool add_generation_prompt) const;

  // The same text in parts, in which only what the assistant says counts: what a template puts after the
  // prompt for an answer, up to the answer's end. Throws UserError when a template changes what came before.
  std::vector<Segment> segments(const Json& messages) const;

 private:
  std::string name_;
  Json variables_;
  std::vector<Statement> statements_;
};

// The text of a built-in template.
std::string chat_template_text(const std::string& name);

// Opens a template by a built-in name (chatml, llama3 or mistral), or by the path of a file of Jinja, of a
// tokenizer_config.json, or of a folder with such files. As in transformers, a chat_template.jinja takes
// precedence over the template of the tokenizer_config.json next to it, and special tokens such as
// bos_token come from that tokenizer_config.json. Throws UserError.
ChatTemplate open_chat_template(const std::string& path);

}  // namespace tessera::data
