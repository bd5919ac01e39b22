/** The statements about daemons. Only the database's clock decides when a lease has run out. */

/** Late is fine, dead is final. */
export const RENEW = `
UPDATE daemons SET lease_until = clock_timestamp() + $2 * interval '1 ms' WHERE boot_id = $1 AND state <> 'dead'
RETURNING clock_timestamp() AS now, state, bf_era() AS era,
  (SELECT count(*) FROM daemons WHERE state = 'live') AS live,
  (SELECT count(*) FROM heads WHERE owner IS NOT NULL) AS held`

/** Row locks decide between this and a renewal: one of them happens. */
export const REAP = `
WITH dead AS (
  UPDATE daemons SET state = 'dead' WHERE state <> 'dead' AND lease_until < clock_timestamp() RETURNING boot_id
)
UPDATE heads h SET owner = NULL, wake_at = clock_timestamp() FROM dead WHERE h.owner = dead.boot_id RETURNING h.session_id`

/** This daemon's own, earlier or now: its sessions are due at once. */
export const END = `
WITH dead AS (UPDATE daemons SET state = 'dead' WHERE boot_id = $1 RETURNING boot_id)
UPDATE heads h SET owner = NULL, wake_at = clock_timestamp() FROM dead WHERE h.owner = dead.boot_id RETURNING h.session_id`

export const REGISTER = `
INSERT INTO daemons (boot_id, name, version, url, config_hash, places, lease_until)
VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7 * interval '1 ms')
ON CONFLICT (boot_id) DO UPDATE SET lease_until = excluded.lease_until RETURNING clock_timestamp() AS now, bf_era() AS era`

export const ANNOUNCE = `
UPDATE daemons SET url = coalesce($2, url), config_hash = coalesce($3, config_hash), places = coalesce($4, places) WHERE boot_id = $1`

export const DRAIN = `UPDATE daemons SET state = 'draining' WHERE boot_id = $1 AND state <> 'dead' RETURNING boot_id`

export const LIST = `
SELECT d.*, (SELECT count(*) FROM heads h WHERE h.owner = d.boot_id) AS held FROM daemons d ORDER BY started_at, boot_id`

/** Any write of ours: when it is committed, so is everything before it. */
export const BARRIER = 'UPDATE daemons SET barrier = barrier + 1 WHERE boot_id = $1'
