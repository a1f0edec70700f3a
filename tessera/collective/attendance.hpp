// What a rank is given in a job that can lose ranks and go on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tessera/base/process/roll_call.hpp"
#include "tessera/collective/group.hpp"

namespace tessera::collective {

struct Attendance {
  RollCall& calls;
  // This rank among all ranks of the job, for groups of those that are there. Each time under another name,
  // the same on all of them, so that nobody is connected to one who has given up.
  std::function<std::unique_ptr<Communicator>(const std::string& name)> connect;
  bool is_newcomer = false;  // started again: the others are under way
};

}  // namespace tessera::collective
