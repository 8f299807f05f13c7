// Which emitter a build has.

#ifndef MICA_KERNELS_REGION_VERSION_H_
#define MICA_KERNELS_REGION_VERSION_H_

namespace mica::region {

// A hash of the sources that machine code of a region follows from: builds of
// equal ones make, and take from one another, equal code.
const char* EmitterVersion();

}  // namespace mica::region

#endif  // MICA_KERNELS_REGION_VERSION_H_
