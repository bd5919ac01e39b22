/** The version that all packages share, and the name under which npm knows this one. */
import manifest from '../../package.json' with { type: 'json' }

export const version: string = manifest.version

/** `breakfall` if it was published, `@breakfall/cli` in a checkout. */
export const packageName: string = manifest.name
