/* SPDX-License-Identifier: MIT */
/* A world is what these are set to. Everything not named is 0: it does not happen there. A verifier
 * reads them when it starts (common.py), so that one serves all worlds. */

/* The class of the tool. */
#define OPAQUE 0
#define IDEMPOTENT 1
#define KEYED 2
#ifndef CLASS
#define CLASS OPAQUE
#endif
#ifndef REORDER_SAFE /* an idempotent tool that may be sent again while the first is under way */
#define REORDER_SAFE 0
#endif

/* How often it may happen. */
#ifndef CALLS
#define CALLS 0
#endif
#ifndef KILLS /* of one gateway process */
#define KILLS 0
#endif
#ifndef HOST_CRASHES
#define HOST_CRASHES 0
#endif
#ifndef ERRORS /* of the ledger */
#define ERRORS 0
#endif
#ifndef UNSENT /* a server that did not start */
#define UNSENT 0
#endif
#ifndef REFUSALS
#define REFUSALS 0
#endif
#ifndef ROUNDS /* the tool asks back */
#define ROUNDS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef DECISIONS /* of people about an unknown outcome */
#define DECISIONS 0
#endif
#ifndef RETRIES /* a caller asks for the successor */
#define RETRIES 0
#endif
#ifndef LEASES /* the two gateways are on two hosts; so many leases run out */
#define LEASES 0
#endif
#define TWO_HOSTS (LEASES > 0)

/* Whether it may happen. */
#ifndef PROBES
#define PROBES 0
#endif
#ifndef RETRY_AFTER_PROOF
#define RETRY_AFTER_PROOF 0
#endif
#ifndef HORIZON /* the tool forgets the effect key */
#define HORIZON 0
#endif
#ifndef PAUSES /* ... even while an attempt begun before that is on its way */
#define PAUSES 0
#endif
#ifndef APPROVAL
#define APPROVAL 0
#endif
#ifndef RETENTION
#define RETENTION 0
#endif
#ifndef RESTORE /* of an older copy of the ledger */
#define RESTORE 0
#endif
#ifndef SETTLE /* faults and calls end at any moment, and then everything must come to rest */
#define SETTLE 0
#endif

#define SENDS_MAX 2 /* attempts of the contract */
#define ROWS 2
#define GATEWAYS 2
#define MESSAGES 4
