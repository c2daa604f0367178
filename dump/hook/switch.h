#pragma once

// Whether hooks record: TILESCOPE_DUMP says 1 or 0, and where nobody defines it, DEBUG_DUMP says 1 by being defined. A
// project that has a DEBUG_DUMP of its own compiles with -DTILESCOPE_DUMP=0 or 1.

#ifndef TILESCOPE_DUMP
#ifdef DEBUG_DUMP
#define TILESCOPE_DUMP 1
#else
#define TILESCOPE_DUMP 0
#endif
#endif
