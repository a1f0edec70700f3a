// Which errors of a disk may pass by themselves, so that what failed is worth another try.
#pragma once

#include <cerrno>

namespace tessera {

// No space, quota, file size limit, an error of the device.
inline bool is_transient(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
}

}  // namespace tessera
