// Reads a run file strictly, naming each mistake with file, line and key, and writes one.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tessera/spec/spec.hpp"

namespace tessera::spec {

// What model.weights says of the model that it holds.
struct Described {
  Model model;  // sequence, init_std, dropout and weights of it mean nothing
  std::int64_t max_positions = 0;
  std::string where;  // "folder/config.json"
};
// Of a model whose weights, and whether their links are followed, are known; nothing if they say nothing of
// the model.
using Describe = std::function<std::optional<Described>(const Model& asked)>;

// Reads a run file and what it includes, then applies overrides of the form section.key=value. Throws one
// UserError that lists all mistakes. Whether the values go together is validate()'s question. What `describe`
// says of the model stands in for its keys; one that is written down and differs is a mistake. Depth, size
// and the number of included files are bounded, so that a file of another kind, or made in malice, ends in
// such an error too.
Run load(const std::filesystem::path& path, std::span<const std::string> overrides = {},
         const Describe& describe = nullptr);

// The same from a text that includes nothing; `name` stands for the file in messages.
Run parse(std::string_view text, const std::string& name, std::span<const std::string> overrides = {},
          const Describe& describe = nullptr);

// The whole run as a file, defaults written out: parse(to_text(run)) == run.
std::string to_text(const Run& run);

}  // namespace tessera::spec
