// Where the ranks of a job that does without some of them find out between steps who is still there.
// Implemented over a socket by `launch`.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct Attendant {
  int rank = 0;
  std::string brought;
  bool is_new = false;  // a newcomer that has just been admitted; it brought nothing
  bool operator==(const Attendant&) const = default;
};

class RollCall {
 public:
  virtual ~RollCall() = default;
  // Waits until each rank of `expected` has called it or is gone. Returns who has called and is not gone, by
  // rank; all of them get the same. `admits`: newcomers that wait are among them from now on. All bring the
  // same `expected` and `admits`. Throws PeerLost when the job is lost.
  virtual std::vector<Attendant> meet(const std::vector<int>& expected, const std::string& brought,
                                      bool admits) = 0;
  // Of a newcomer: waits until it is admitted together with all of these ranks, which are newcomers too.
  // Returns what meet() returned to the others; nobody when the job has ended without it.
  virtual std::vector<Attendant> join(const std::vector<int>& together) = 0;
};

}  // namespace tessera
