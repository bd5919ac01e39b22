/** Whether node_modules has what the lock file says, however it got there. Plain JavaScript, because an old Node runs it. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * What is installed: `runTime` if the program has everything it needs, `dev` if the packages for tests and tools are complete too,
 * `someDev` if there is any of those. npm notes what it installed in `node_modules/.package-lock.json`, as its last step.
 */
export function installedIn(root) {
  const wanted = packagesOf(join(root, 'package-lock.json'))
  const found = packagesOf(join(root, 'node_modules', '.package-lock.json'))
  const isThere = ([path, { version, integrity }]) =>
    found[path] !== undefined &&
    found[path].version === version &&
    found[path].integrity === integrity &&
    existsSync(join(root, path))
  const needed = Object.entries(wanted).filter(([path, entry]) => isInstalled(path) && !mayBeMissing(entry))
  const isComplete = (entries) => Object.keys(found).length > 0 && entries.every(isThere)
  return {
    runTime: isComplete(needed.filter(([, entry]) => !isForDev(entry))),
    dev: isComplete(needed),
    someDev: Object.values(found).some(({ dev }) => dev === true),
  }
}

// ---- details, in the order they are used above ----

function packagesOf(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages ?? {}
  } catch {
    return {} // nothing is installed, or not by npm
  }
}

/** The other entries are folders of the checkout. */
const isInstalled = (path) => /(^|\/)node_modules\//.test(path)

const isForDev = ({ dev, devOptional }) => dev === true || devOptional === true

/** A build for another machine. npm does not say which C library this one has. */
const mayBeMissing = ({ optional, os, cpu, libc }) =>
  optional === true &&
  (libc !== undefined || os?.includes(process.platform) !== true || cpu?.includes(process.arch) !== true)
