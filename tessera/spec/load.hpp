// Reads a run file strictly, naming each mistake with file, line and key, and writes one.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tessera/spec/problems.hpp"
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

// Reads a run file and what it includes, applies overrides of the form section.key=value, and validates the
// run for what it will be run with. Throws one UserError that lists all mistakes. What `describe` says of the
// model stands in for its keys; one that is written down and differs is a mistake. Depth, size and the number
// of included files are bounded, so that a file of another kind, or made in malice, ends in such an error
// too.
Run load(const std::filesystem::path& path, std::span<const std::string> overrides = {},
         const Describe& describe = nullptr, const Build& build = any_build());

// The same from a text that includes nothing; `name` stands for the file in messages.
Run parse(std::string_view text, const std::string& name, std::span<const std::string> overrides = {},
          const Describe& describe = nullptr, const Build& build = any_build());

// The same without validate(): each value is within its own bounds, but they may not go together. For a run
// that is changed or only compared before it is used; everything else may divide by zero or overflow with it.
Run load_unchecked(const std::filesystem::path& path, std::span<const std::string> overrides = {},
                   const Describe& describe = nullptr);
Run parse_unchecked(std::string_view text, const std::string& name,
                    std::span<const std::string> overrides = {}, const Describe& describe = nullptr);

// The whole run as a file, defaults written out: parse_unchecked(to_text(run)) == run.
std::string to_text(const Run& run);
// The keys whose values differ from the defaults: parse(to_short_text(run)) == run.
std::string to_short_text(const Run& run);

}  // namespace tessera::spec
