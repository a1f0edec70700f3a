// What a record of the input says: parts of text, and which of them count in the loss.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/data/chat/chat_template.hpp"

namespace tessera::data {

enum class RecordKind {
  text,        // all of a record of plain text, or one field of a JSON object
  completion,  // {"prompt": ..., "completion": ...}: the completion counts
  messages,    // {"messages": [{"role": ..., "content": ...}, ...]}: what the assistant says counts
};

struct RecordOptions {
  RecordKind kind = RecordKind::text;
  std::string field = "text";  // empty: records are plain text
  std::shared_ptr<const ChatTemplate> chat;
};

// Throws UserError that says what is wrong with the record, without where it stands.
std::vector<Segment> parse_record(const std::string& bytes, const RecordOptions& options);

}  // namespace tessera::data
