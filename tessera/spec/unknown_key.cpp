#include "tessera/spec/unknown_key.hpp"

#include <optional>
#include <vector>

#include "tessera/base/text.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::spec {
namespace {

std::string unknown_section(const std::string& section) {
  std::vector<std::string> names;
  for (const auto& known : sections()) names.push_back(known.name);
  return cat("unknown section ", section, did_you_mean(nearest(section, names)), " The sections are ",
             join(names, ", "), ".");
}

}  // namespace

// A key put in the wrong section is found by its name alone before spelling is considered.
std::string unknown_key(const std::string& section, const std::string& name) {
  if (!section.empty() && !is_section(section)) return unknown_section(section);
  if (section.empty() && is_section(name))
    return cat(name, " is a section: write [", name, "] above its keys");
  std::vector<std::string> in_section, all;
  std::optional<std::string> near;
  for (const auto& key : schema()) {
    all.push_back(key.full());
    if (key.section == section) in_section.push_back(key.name);
    if (key.name == name && !near) near = key.full();
  }
  const std::string full = section.empty() ? name : cat(section, ".", name);
  // Within its section the shared prefix must not make a far name look near.
  if (!near && !section.empty()) {
    near = nearest(name, in_section);
    if (near) near = cat(section, ".", *near);
  } else if (!near) {
    near = nearest(full, all);
  }
  return cat("unknown key ", full, did_you_mean(near));
}

}  // namespace tessera::spec
