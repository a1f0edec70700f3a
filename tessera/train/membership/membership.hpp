// Which replicas of a run take part, and what their ranks do together when they meet.
//
// Note [Replicas that come and go]
// Where the launcher can do without a replica (collective/attendance.hpp), one that dies is left out from the
// next meeting on, and one that was started again is let in at a meeting between steps. What replicas do
// together they try: each says how it went, and if it went badly for one of them those that are left connect
// anew, under a name that nobody has used before, and try again from the values they began with. The list of
// who is there comes from the key server, the same for all, and so does the verdict on a try. The ranks of a
// replica come and go together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tessera/collective/attendance.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::train {

class Membership {
 public:
  // Of `replicas` equal ones in that layout. `attendance` may be null: then all take part for good.
  Membership(const spec::Layout& layout, const collective::Communicator& all,
             const collective::Attendance* attendance);

  int replica() const { return replica_; }  // this rank's
  bool does_without_some() const { return attendance_ != nullptr; }
  // Of those that take part; the first is always among them.
  const std::vector<int>& replicas() const { return replicas_; }
  // Those among them that were let in at the last meeting.
  const std::vector<int>& newcomers() const { return newcomers_; }
  bool is_newcomer() const;

  // What all ranks bring, added up: a meeting, which lets newcomers in.
  std::vector<double> sums(std::vector<double> values);
  // Of a newcomer, instead: what the meeting that lets it in has added up; nothing: the run is over.
  std::optional<std::vector<double>> join();

  // Over the ranks at this rank's place in each replica, in the order of replicas().
  using Work = std::function<void(const collective::Group&)>;
  // Whether it went well here; throws what it throws where no replica may be lost.
  bool attempt(const Work& work);
  // Whether it went well for all of those that take part: a meeting too. Throws PeerLost when it fails again
  // and again although nobody is lost.
  bool agree(bool went_well);
  // Until it went well for all.
  void together(const Work& work);

  // What was summed over these since the start, by this rank; not while something is tried.
  collective::Volume reduced() const;
  // Ends what waits for others, on whichever thread, and what is tried later.
  void abort();

 private:
  std::vector<double> meet(const std::vector<double>& values, bool admits);
  std::vector<double> take_over(const std::vector<Attendant>& there, std::size_t num_values);
  // At this rank's place in each of replicas().
  std::vector<int> ranks_of_counterparts() const;
  void connect();
  void leave();

  const spec::Layout layout_;
  const collective::Communicator& all_;
  const collective::Attendance* attendance_;
  int replica_ = 0;
  std::vector<int> replicas_, newcomers_;
  collective::Group everyone_;  // where all take part for good
  std::mutex mutex_;            // of the next two
  std::unique_ptr<collective::Communicator> communicator_;
  bool is_aborted_ = false;
  collective::Group counterparts_;
  bool is_connected_ = false;     // the counterparts are those of replicas()
  std::int64_t connections_ = 0;  // that were tried, the same number by all
  std::int64_t failures_ = 0;     // of tries in a row, by whomever, with the same replicas
  std::string last_failure_;      // of this rank's
  collective::Volume before_;     // reduced over counterparts of before
};

}  // namespace tessera::train
