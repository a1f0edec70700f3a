// Finds the key that was probably meant by a name that Tessera does not know.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::spec {

// What other systems call something that is a key or an option here (other_names.def).
struct OtherName {
  std::string ours;                // "training.learning_rate", or an option such as "--from"
  std::vector<std::string> names;  // "lr", "max_lr"
  std::string note;                // what differs, if anything does
};
const std::vector<OtherName>& other_names();
// By one of these names, however it is written: "lr", "--LR", "training.lr". Null: there is none.
const OtherName* found_elsewhere(std::string_view name);
// "training.global_batch (samples of a step, of all ranks together)"; a key with its value, if one is given.
std::string to_text(const OtherName& other, const std::string& value = "");

// The message for a key that the schema does not have, with the key that was probably meant.
std::string unknown_key(const std::string& section, const std::string& name);

}  // namespace tessera::spec
