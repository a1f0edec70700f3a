// How a running job is asked for a checkpoint: by a file in the folder of the run. The job looks for it
// between steps, saves, writes its answer into another file and removes the first.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tessera::checkpoint {

struct SaveAnswer {
  std::int64_t step = 0;  // that was saved; 0: none could be
  std::string words;      // the folder of the checkpoint, or why there is none
  bool operator==(const SaveAnswer&) const = default;
};

// The job's side.
class SaveRequests {
 public:
  // Of the run that lies in this folder; empty: nobody can ask.
  explicit SaveRequests(std::string folder) : folder_(std::move(folder)) {}

  // Whether its user asks now. One call of the system.
  bool is_asked() const;
  // Throws UserError when the disk refuses; the request is then gone too, so that it is not answered for
  // ever.
  void answer(const SaveAnswer& answer) const;

 private:
  std::string folder_;
};

// Asks for a save and waits until the job has answered. `is_running` is asked now and then: once it says no,
// the request is withdrawn. Throws UserError when the folder is not this user's, no job runs there, or it
// ended without an answer.
SaveAnswer ask_for_save(const std::string& folder, const std::function<bool()>& is_running);

}  // namespace tessera::checkpoint
