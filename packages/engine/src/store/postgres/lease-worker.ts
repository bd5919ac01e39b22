/**
 * The thread that renews a daemon's lease, on its own connection: neither a busy main thread nor a long statement delays it.
 *
 * I1  If the main thread has stopped running, the lease is not renewed: somebody else continues its work.
 * I2  Only a daemon that renewed in time for a whole lease declares others dead: the one whose connections come back first after an
 *     outage must not. See `Punctuality`.
 */
import { workerData } from 'node:worker_threads'
import { numberIn, textIn } from '../sqlite-statements.ts'
import { times } from './clock.ts'
import { Connection } from './connection.ts'
import { type LeaseMessage, type LeaseStart, Punctuality, RenewalTimes, type ToLeaseThread } from './lease-protocol.ts'
import { REAP, RENEW } from './lease-sql.ts'

const start: LeaseStart = workerData
const { url, leaseMs, shared, port } = start
const every = leaseMs / 3
const renewals = new RenewalTimes(shared)
const connection = new Connection({ url, waitMs: every })
/** None before it is registered: a renewal that finds no row means that the daemon was declared dead. */
let bootId: string | undefined
const punctuality = new Punctuality(leaseMs, times().monotonic)

const tell = (message: LeaseMessage): void => port.postMessage(message)

async function renew(): Promise<void> {
  const sent = times()
  if (renewals.sinceTickMs(sent) > (leaseMs * 2) / 3) return // I1
  const mine = bootId
  if (mine === undefined) return
  const [row] = await connection.query(RENEW, [mine, leaseMs])
  const received = times()
  if (mine !== bootId) return
  if (row === undefined) return tell({ kind: 'dead' })
  punctuality.renewed(renewals.sinceRenewalMs(received), received.monotonic)
  renewals.renewed(sent)
  tell({
    kind: 'renewed',
    renewed: {
      now: Date.parse(textIn(row, 'now')),
      roundTripMs: received.monotonic - sent.monotonic,
      receivedAt: received.monotonic,
      state: textIn(row, 'state'),
      live: numberIn(row, 'live'),
      held: numberIn(row, 'held'),
      era: numberIn(row, 'era'),
    },
  })
  if (!punctuality.mayReap(received.monotonic)) return // I2
  const freed = await connection.query(REAP, [])
  if (freed.length > 0) tell({ kind: 'freed', sessions: freed.length })
}

/** Before anything is registered: the lease must not run out while the first connection is made. */
let pending = connection.query('SELECT 1').then(
  () => tell({ kind: 'ready' }),
  () => tell({ kind: 'ready' }), // away: registering says so
)
const timer = setInterval(() => {
  pending = pending.then(renewAgain)
}, every)

/** An error here is a renewal that is missing: the main thread notices by the time. */
async function renewAgain(): Promise<void> {
  await renew().catch(() => undefined) // it is tried again in time
}

port.on('message', (message: ToLeaseThread) => {
  if (message.kind === 'boot') {
    bootId = message.bootId
    pending = pending.then(renewAgain)
    return
  }
  clearInterval(timer)
  void pending.then(() => connection.end()).then(() => port.close())
})
