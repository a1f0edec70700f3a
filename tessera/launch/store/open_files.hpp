// How many files and sockets this process may hold open at a time.
#pragma once

#include <string>

namespace tessera::launch {

// Raises the process's limit of open files to `needed` where it is lower. Throws UserError when the system
// allows fewer; `where` names the process in it.
void reserve_open_files(int num_ranks, std::size_t needed, const std::string& where);

}  // namespace tessera::launch
