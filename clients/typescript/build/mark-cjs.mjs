// Tells Node that what lies in dist/cjs is CommonJS: the package around it is not.
import { writeFileSync } from "node:fs";

const dist = process.argv[2] ?? "dist";
writeFileSync(`${dist}/cjs/package.json`, '{"type":"commonjs"}\n');
