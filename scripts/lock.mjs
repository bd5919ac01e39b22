/**
 * Run after `npm install`: makes package-lock.json work on every machine.
 *
 * 1. Removes download addresses, so each machine uses its own registry.
 * 2. Restores native packages of other platforms. If a registry mirror does not have them, npm leaves them out of the lock, and
 *    `npm ci` rejects that lock. We add them with version and platform; other platforms never download them.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './setup.mjs'

const file = join(root, 'package-lock.json')
const lock = JSON.parse(readFileSync(file, 'utf8'))

for (const entry of Object.values(lock.packages)) {
  if (typeof entry.resolved === 'string' && entry.resolved.startsWith('http')) delete entry.resolved
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    const path = `node_modules/${name}`
    const platform = platformOf(name)
    if (lock.packages[path] || !platform || !/^\d/.test(version)) continue
    lock.packages[path] = { version, ...(entry.dev && { dev: true }), optional: true, ...platform }
  }
}
writeFileSync(file, JSON.stringify(lock, null, 2) + '\n')

function platformOf(name) {
  const parts =
    /(android|darwin|freebsd|linux|openharmony|win32)-(arm-?\w*|arm64|x64|ia32|ppc64|riscv64|s390x)(?:-(musl|gnu|msvc))?/.exec(
      name,
    )
  if (!parts) return null
  const [, os, cpu, libc] = parts
  return {
    os: [os],
    cpu: [cpu.startsWith('arm-') ? 'arm' : cpu],
    ...(libc === 'musl' ? { libc: ['musl'] } : {}),
  }
}
