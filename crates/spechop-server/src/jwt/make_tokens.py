"""Makes tokens.json: tokens of every kind that is taken, signed by another implementation (PyJWT).

    python3 -m pip install 'pyjwt[crypto]==2.15.1'
    python3 make_tokens.py > tokens.json

The private keys are thrown away.
"""

import json

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

# 2100-01-01.
CLAIMS = {"iss": "https://id.example.org/", "aud": "spechop", "sub": "team-7", "exp": 4102444800}


def main() -> None:
    keys = {
        "rsa": (rsa.generate_private_key(65537, 2048), RSAAlgorithm),
        "short": (rsa.generate_private_key(65537, 1024), RSAAlgorithm),
        "p256": (ec.generate_private_key(ec.SECP256R1()), ECAlgorithm),
        "p384": (ec.generate_private_key(ec.SECP384R1()), ECAlgorithm),
        "ed": (ed25519.Ed25519PrivateKey.generate(), OKPAlgorithm),
    }
    public = []
    for name, (key, algorithm) in keys.items():
        public.append({**json.loads(algorithm.to_jwk(key.public_key())), "kid": name, "use": "sig", "key_ops": ["verify"]})
    kinds = [("rsa", kind) for kind in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")]
    kinds += [("p256", "ES256"), ("p384", "ES384"), ("ed", "EdDSA"), ("short", "RS256")]
    tokens = [
        {"kid": name, "alg": kind, "token": jwt.encode(CLAIMS, keys[name][0], kind, headers={"kid": name})}
        for name, kind in kinds
    ]
    print(json.dumps({"jwks": {"keys": public}, "tokens": tokens}, indent=1))


main()
