// Functions that <cmath> doesn't have, or not as PyTorch defines them.

#ifndef MICA_KERNELS_REFERENCE_GAMMA_H_
#define MICA_KERNELS_REFERENCE_GAMMA_H_

namespace mica {

// The logarithm of gamma's magnitude: infinite at its poles.
double LogGamma(double x);

// Its slope. nan at negative integers, at zeros infinite with the other sign.
double Digamma(double x);

// The y whose erf is x: infinite at -1 and 1, nan beyond.
double InverseErf(double x);

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_GAMMA_H_
