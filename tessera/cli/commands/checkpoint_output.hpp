// What the commands on checkpoints share: finding one in the folder a user names, and printing text that no
// file's content can use to steer the terminal.
#pragma once

#include <string>

#include "tessera/checkpoint/folder/checkpoint.hpp"

namespace tessera::cli {

// The one checkpoint of that folder; a run's folder with several is a UserError that names the newest.
checkpoint::Checkpoint opened_checkpoint(const std::string& folder, Links links);

std::string size_text(std::uint64_t bytes);

// On standard output, with '?' for control characters and bytes that are no text.
void print_lines(const std::string& text);

}  // namespace tessera::cli
