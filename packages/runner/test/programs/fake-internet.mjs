/**
 * Preloaded into a runner: another internet. FAKE_INTERNET is a JSON file with `names` (lists of addresses, one list for each
 * lookup; the last one stays) and `ports` (a port of this machine for each "address port").
 */
import dns from 'node:dns/promises'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'

const { names, ports } = JSON.parse(fs.readFileSync(process.env['FAKE_INTERNET'], 'utf8'))
const { connect } = net

dns.lookup = (name) => {
  const answers = names[name] ?? []
  const now = answers.length > 1 ? answers.shift() : (answers[0] ?? [])
  return Promise.resolve(now.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })))
}
net.connect = (options, ...rest) => {
  const port = ports[`${options.host} ${options.port}`]
  return port === undefined ? connect(options, ...rest) : connect({ host: '127.0.0.1', port })
}
syncBuiltinESMExports()
