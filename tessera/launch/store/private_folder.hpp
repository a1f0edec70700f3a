// A folder of this user alone, for the sockets of the ranks of one host.
#pragma once

#include <filesystem>

namespace tessera::launch {

// tessera-UID in the folder for temporary files; made if it is not there. Throws UserError when another user
// made it first.
std::filesystem::path private_folder();

}  // namespace tessera::launch
