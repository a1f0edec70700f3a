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
  // Throws UserError naming the line and what is not understood.
  ChatTemplate(std::string_view text, std::string name);

  const std::string& name() const { return name_; }
  // The text of a list of messages. `variables` is an object with what else the template may use, such as
  // bos_token and eos_token. Throws UserError when the template does, and when it computes without an end.
  std::string render(const Json& messages, bool add_generation_prompt, const Json& variables) const;

  // The same text in parts, in which only what the assistant says counts: what a template puts after the
  // prompt for an answer, up to the answer's end. Throws UserError when a template changes what came before.
  std::vector<Segment> segments(const Json& messages, const Json& variables) const;

 private:
  std::string name_;
  std::vector<Statement> statements_;
};

// The text of a built-in template.
std::string chat_template_text(const std::string& name);

// The template of a tokenizer_config.json or of a file with its text; or one of the built-in names chatml,
// llama3 and mistral. Throws UserError.
ChatTemplate open_chat_template(const std::string& path);

// What else such a template may use: bos_token and eos_token of a tokenizer_config.json, which may be texts
// or objects with a content.
Json chat_variables(const std::string& path);

}  // namespace tessera::data
