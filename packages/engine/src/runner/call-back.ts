/**
 * Asks the server at an address which runner it is. Runners choose the address and must not use it to misdirect a daemon's requests:
 * no redirect is followed, link-local addresses are refused, no token is sent, and two fields of the answer are read.
 */
import { lookup } from 'node:dns'
import { request as http } from 'node:http'
import { request as https } from 'node:https'
import { BlockList, isIP, type LookupFunction } from 'node:net'

export type CalledBack = { readonly runnerId: string; readonly bootId: string }

/** Rejects with an Error that says in a few words what is wrong there. */
export function callBack(url: string, limitMs = LIMIT_MS): Promise<CalledBack> {
  return new Promise((resolve, reject) => {
    const target = new URL(`${url.replace(/\/+$/, '')}/v1/health`)
    const host = target.hostname.replace(/^\[|\]$/g, '')
    if (isIP(host) !== 0 && isLinkLocal(host)) return reject(new Error(LINK_LOCAL))
    const signal = AbortSignal.timeout(limitMs)
    const request = (target.protocol === 'https:' ? https : http)(target, { signal, lookup: usable, agent: false })
    request.once('error', (error) => reject(signal.aborted ? new Error(`no answer in ${limitMs} ms`) : error))
    request.once('response', (answer) => {
      const chunks: Buffer[] = []
      let bytes = 0
      answer.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > BYTES_MAX) request.destroy(new Error('its answer is too long'))
        else chunks.push(chunk)
      })
      answer.once('error', reject)
      answer.once('end', () => {
        const found = identityIn(Buffer.concat(chunks).toString('utf8'))
        if (answer.statusCode === 200 && found !== undefined) resolve(found)
        else reject(new Error(`what answers there is no runner (HTTP ${answer.statusCode})`))
      })
    })
    request.end()
  })
}

// ---- details ----

const LIMIT_MS = 2_000
const BYTES_MAX = 16 * 1024
const LINK_LOCAL = 'link-local addresses are refused'

const refused = new BlockList()
refused.addSubnet('169.254.0.0', 16, 'ipv4')
refused.addSubnet('fe80::', 10, 'ipv6')

const isLinkLocal = (address: string): boolean => refused.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')

/** Names are looked up here and nowhere else, so what is checked is what is called. */
const usable: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    const [first, ...others] = (addresses ?? []).filter(({ address }) => !isLinkLocal(address))
    if (error !== null) return callback(error, '')
    if (first === undefined) return callback(Object.assign(new Error(LINK_LOCAL), { code: 'EACCES' }), '')
    if (options.all === true) return callback(null, [first, ...others])
    callback(null, first.address, first.family)
  })
}

function identityIn(text: string): CalledBack | undefined {
  try {
    const { runnerId, bootId }: { runnerId?: unknown; bootId?: unknown } = { ...JSON.parse(text) }
    return typeof runnerId === 'string' && typeof bootId === 'string' ? { runnerId, bootId } : undefined
  } catch {
    return undefined // not JSON
  }
}
