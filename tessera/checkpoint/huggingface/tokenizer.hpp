// Which files of Hugging Face make tokens of a text, and the copies of them that a run keeps.
#pragma once

#include <optional>
#include <string>

#include "tessera/base/files/folder_file.hpp"

namespace tessera::checkpoint {

// The first such file of a folder, by its name; nothing if there is none.
std::optional<std::string> tokenizer_in(const std::string& folder);

// Copies a tokenizer (its file, or its folder) and the files that belong to it, such as its chat template, to
// the folder `tokenizer` among the checkpoints of a run. Nothing happens when they lie there already. Throws
// UserError when the disk refuses.
void keep_tokenizer(const std::string& source, const std::string& checkpoints, Links links);

// The folder that the run of a checkpoint has kept its tokenizer in; nothing if it has none.
std::optional<std::string> kept_tokenizer(const std::string& checkpoint);
// The same, or the files of the checkpoint's import, which go first.
std::optional<std::string> tokenizer_folder(const std::string& checkpoint);

}  // namespace tessera::checkpoint
